import { Writable } from 'node:stream'
import { pino } from 'pino'
import { afterEach, expect, it } from 'vitest'
import { createClosers } from '../../runtime/closers.ts'
import { openOrganization } from '../api/accounts/organization.ts'
import { aPoint } from '../kit/builders.ts'
import { aForm, createAssetClient } from '../kit/clients/assets.ts'
import { expectNowhere, openSearchableStores } from '../kit/dump.ts'
import { svc } from '../kit/processes/svc.ts'
import { availableQueues, testMasterKey, uniqueName } from '../kit/service.ts'

const closers = createClosers()
afterEach(() => closers.closeAll())

it.each(availableQueues())(
  'after a run that used them all, no key and no secret is in a store or a line of the log, with the queue in %s',
  async (queue) => {
    const { stores, database, dump } = await openSearchableStores(queue, closers)
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
      const assets = createAssetClient({ ...organization, apiKey, client })
      await assets.upload({ experimentKey, fileName: 'a.txt' }, aForm(Buffer.from('what an asset holds')))
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
    const put = (secretValue: unknown) =>
      admin.send('PUT', secrets, JSON.stringify({ secretName: 'hook', secretValue }))
    clear['a secret'] = 'Bearer the-clear-text-of-a-secret'
    clear['a refused secret'] = 'the-clear-text-of-a-refused-secret'
    clear['a failed secret'] = 'the-clear-text-of-a-failed-secret'
    expect((await put(clear['a secret'])).status).toBe(200)
    expect((await put([clear['a refused secret']])).status).toBe(400)
    await database.row(`ALTER TABLE organization_secrets ADD CONSTRAINT refused CHECK (name <> 'hook') NOT VALID`)
    expect((await put(clear['a failed secret'])).status).toBe(500)

    const onClose = (close: () => unknown) => closers.push(async () => close())
    const printed = await svc(['users', 'key', 'admin'], { POSTGRES_URL: stores.postgresUrl }, onClose)
    clear['a key of the command line'] = /svc_\w{49}/.exec(printed.stdout)?.[0] as string

    const places: Record<string, string> = { ...(await dump()), 'the log': lines.join('') }
    // All were looked through: there is what was written to them, and the failures were logged.
    expect(places.Postgres).toContain('hook')
    expect(places.ClickHouse).toContain('loss')
    if (queue === 'redis') expect(places.Redis).toContain('receivedMs')
    expect(places['the objects']).toContain('what an asset holds')
    expect(places['the log']?.match(/a request failed/g)).toHaveLength(2)
    expectNowhere(clear, places)
  },
)
