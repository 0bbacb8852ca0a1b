import { readFileSync, rmSync, statSync } from 'node:fs'
import path from 'node:path'
import { afterEach, expect, it } from 'vitest'
import { expectPlainFailure } from '../../kit/processes/expect.ts'
import { aFolder, clientOf, startUp, svc } from '../../kit/processes/svc.ts'

const closers: (() => unknown)[] = []
const onClose = (close: () => unknown) => void closers.push(close)
afterEach(async () => {
  for (const close of closers.splice(0).toReversed()) await close()
})

it('svc up keeps secrets with a master key of its data folder, and does not start without it', async () => {
  const folder = await aFolder(onClose)
  const up = await startUp(folder, {}, onClose)
  const client = clientOf(up, up.key)
  const { organizationId } = (await client.get('/admin/users')).body
  const secret = JSON.stringify({ secretName: 'hook', secretValue: 'a value' })
  expect((await client.send('PUT', `/write/organization/${organizationId}/secrets`, secret)).text).toBe('200 Ok')
  const file = path.join(folder, 'master-key')
  expect(statSync(file).mode & 0o777).toBe(0o600)
  const content = readFileSync(file, 'utf8')
  expect(up.stdout() + up.stderr()).not.toContain(content.trim())
  up.kill('SIGTERM')
  expect((await up.ended).code).toBe(0)

  rmSync(file)
  const outcome = await svc(['up'], { SVC_PORT: '0', SVC_DATA_DIR: folder }, onClose)
  expectPlainFailure(outcome, /The master key is not the one that secrets in Postgres are encrypted with: .*master-key/)
})
