import { randomBytes } from 'node:crypto'
import { afterAll, expect, it } from 'vitest'
import { createClosers } from '../../runtime/closers.ts'
import { svc } from '../kit/processes/svc.ts'

const closers = createClosers()
afterAll(() => closers.closeAll())
const settings = (given: Record<string, string>) =>
  svc(['settings'], given, (close) => closers.push(async () => close()))

it('svc settings prints the present values without secrets', async () => {
  const masterKey = randomBytes(32).toString('hex')
  const { code, stdout } = await settings({
    SVC_COMMIT_WAIT_MS: '7',
    SVC_MASTER_KEY: masterKey,
    POSTGRES_URL: 'postgres://svc:p@ss-1@db.example/svc',
    REDIS_URL: 'redis+sentinel://a:26379,b:26379/0?master=m&sentinelPassword=pass-2',
    OBJECTS_URL: 's3://access:pass-3@s3.example/bucket?region=eu-1',
  })
  expect(code).toBe(0)
  expect(stdout).toMatch(/SVC_COMMIT_WAIT_MS +7\n/)
  expect(stdout).toMatch(/SVC_PORT +8080 \(default\)\n/)
  expect(stdout).toMatch(/SVC_MASTER_KEY +\(set\)\n/)
  expect(stdout).toMatch(/OBJECTS_URL +s3:\/\/\*\*\*@s3\.example\/bucket\?region=eu-1\n/)
  for (const secret of [masterKey, 'ss-1', 'pass-2', 'pass-3']) expect(stdout).not.toContain(secret)
})

it('svc settings lists every wrong setting after the table, and ends with 1', async () => {
  const { code, stdout, stderr } = await settings({ SVC_PORT: 'x', SVC_QUEUE_SHARDS: '0' })
  expect(code).toBe(1)
  expect(stdout).toContain('SVC_QUEUE_SHARDS')
  expect(stderr).toContain('SVC_PORT: must be a port')
  expect(stderr).toContain('SVC_QUEUE_SHARDS: must be 1 or more')
})
