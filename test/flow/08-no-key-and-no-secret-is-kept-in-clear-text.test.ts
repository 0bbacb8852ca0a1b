import { Writable } from 'node:stream'
import { pino } from 'pino'
import { afterAll, expect, it } from 'vitest'
import { createClosers } from '../../store/closers.ts'
import { openDatabase } from '../../store/postgres/database.ts'
import { openOrganization } from '../api/organization.ts'
import { aPoint } from '../harness/builders.ts'
import { dump } from '../harness/dump.ts'
import { openOwnStores, spawnSvc, testMasterKey, uniqueName } from '../harness/service.ts'

const closers = createClosers()
afterAll(() => closers.closeAll())

it('after a run that used them all, no key and no secret is in Postgres, nor in a line of the log', async () => {
  const stores = await openOwnStores('postgres')
  const lines: string[] = []
  const log = pino(
    { level: 'trace' },
    new Writable({
      write(chunk, _encoding, done) {
        lines.push(String(chunk))
        done()
      },
    }),
  )
  const organization = await openOrganization({ stores, log })
  closers.push(organization.close)
  const database = openDatabase({ url: stores.postgresUrl, onError: () => undefined })
  closers.push(() => database.close())
  const { admin, organizationId, workspaceName } = organization
  const clear: Record<string, string> = { 'the admin’s key': organization.apiKey, 'the master key': testMasterKey }

  // Keys are made in every way there is, and used.
  const [person, account] = [uniqueName('person'), uniqueName('account')]
  clear['a user’s key'] = await organization.createColleague(person, { workspaceName })
  clear['an account’s first key'] = (await organization.createAccount(account)).apiKey as string
  const path = `/write/service-account/${account}`
  clear['a further key'] = (await admin.post(`${path}/create-api-key`, {})).body.apiKey as string
  for (const apiKey of Object.values(clear).slice(2)) {
    const client = organization.as(apiKey)
    const experimentKey = await client.createExperiment()
    const point = await client.post('/write/experiment/metric', { experimentKey, ...aPoint() })
    expect(point.status).toBe(200)
    await client.readPoints(experimentKey, 'loss', 1)
  }
  // The ways to be refused, too, and what fails inside: its log line has a cause.
  const typo = `${clear['a further key']}x`
  await organization.as(typo).get('/account-details')
  await admin.post(`${path}/delete-api-key`, { apiKey: [clear['a further key']] })
  await database.row(`ALTER TABLE audit_log ADD CONSTRAINT refused CHECK (act <> 'key.revoked') NOT VALID`)
  const failed = await admin.post(`${path}/delete-api-key`, { apiKey: clear['a further key'] })
  expect(failed.status).toBe(500)
  await database.row('ALTER TABLE audit_log DROP CONSTRAINT refused')
  await admin.post(`${path}/delete-api-key`, { apiKey: clear['a further key'] })
  clear['a rotated key'] = (await admin.get(`/write/api/rotate?userName=${account}`)).body.apiKey as string
  await organization.as(clear['a rotated key']).get('/account-details')

  const secrets = `/write/organization/${organizationId}/secrets`
  const put = (secretValue: unknown) => admin.send('PUT', secrets, JSON.stringify({ secretName: 'hook', secretValue }))
  clear['a secret'] = 'Bearer the-clear-text-of-a-secret'
  clear['a refused secret'] = 'the-clear-text-of-a-refused-secret'
  clear['a failed secret'] = 'the-clear-text-of-a-failed-secret'
  expect((await put(clear['a secret'])).status).toBe(200)
  expect((await put([clear['a refused secret']])).status).toBe(400)
  await database.row(`ALTER TABLE organization_secrets ADD CONSTRAINT refused CHECK (name <> 'hook') NOT VALID`)
  expect((await put(clear['a failed secret'])).status).toBe(500)

  const child = spawnSvc(['users', 'key', 'admin'], { POSTGRES_URL: stores.postgresUrl })
  let printed = ''
  child.stdout?.on('data', (chunk) => {
    printed += chunk
  })
  await new Promise((resolve) => child.once('close', resolve))
  clear['a key of the command line'] = /svc_\w{49}/.exec(printed)?.[0] as string

  const kept = await dump(database)
  const said = lines.join('')
  // Both were looked through: the name of the secret is kept, and the failures were logged.
  expect(kept).toContain('hook')
  expect(said.match(/a request failed/g)).toHaveLength(2)
  for (const [what, text] of Object.entries(clear)) {
    expect(text.length, what).toBeGreaterThan(20)
    for (const form of [
      text,
      Buffer.from(text).toString('base64').replace(/=+$/, ''),
      Buffer.from(text).toString('hex'),
    ]) {
      expect(kept.includes(form), `${what} in Postgres`).toBe(false)
      expect(said.includes(form), `${what} in the log`).toBe(false)
    }
  }
})
