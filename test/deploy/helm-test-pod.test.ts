import { afterEach, expect, it } from 'vitest'
import { chartFile } from '../kit/chart.ts'
import { runCommand } from '../kit/processes/svc.ts'
import { openOwnStores, openTestService } from '../kit/service.ts'

/** What "helm test" runs in the cluster, against a service that is there and against one without workers. */
const closers: (() => unknown)[] = []
const onClose = (close: () => unknown) => void closers.push(close)
afterEach(async () => {
  for (const close of closers.splice(0).toReversed()) await close()
})

async function runTestPod(service: { url: string; apiKey: string }, env: Record<string, string> = {}) {
  const running = runCommand(
    process.execPath,
    [chartFile('files/write-and-read.mjs')],
    { INGEST_URL: service.url, API_URL: service.url, SVC_API_KEY: service.apiKey, ...env },
    onClose,
  )
  const { code } = await running.ended
  return { code, stdout: running.stdout(), stderr: running.stderr() }
}

it('helm test writes a point and reads it back', async () => {
  const service = await openTestService()
  onClose(service.close)

  const outcome = await runTestPod(service)

  expect(outcome).toMatchObject({ code: 0, stderr: '' })
  expect(outcome.stdout).toMatch(/^Written: 0\.\d+.*\nRead back: the same, once\.\n$/)
})

it('helm test fails with a reason when nothing is stored, with a wrong key, and without an answer', async () => {
  // In stores of its own: workers of other tests would take what is in the queue of the common ones.
  const service = await openTestService({
    stores: await openOwnStores('postgres'),
    roles: new Set(['ingest', 'api']),
  })
  onClose(service.close)

  const unread = await runTestPod(service, { WAIT_SECONDS: '1' })
  expect(unread).toMatchObject({ code: 1 })
  expect(unread.stderr).toMatch(/^It does not work: nothing to read after 1 s: do the workers run\?\n$/)

  const stranger = await runTestPod({ ...service, apiKey: 'unknown' })
  expect(stranger).toMatchObject({ code: 1 })
  expect(stranger.stderr).toContain('answered 401')

  const silent = await runTestPod({ ...service, url: 'http://127.0.0.1:1' })
  expect(silent).toMatchObject({ code: 1 })
  expect(silent.stderr).toMatch(/^It does not work: .*(ECONNREFUSED|bad port)/)
})
