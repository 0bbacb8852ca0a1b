import { gzipSync } from 'node:zlib'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { eventually } from '../kit/eventually.ts'
import { openTestService } from '../kit/service.ts'

/** What clients that log live need of the answers; `test/clients/test_comet_ml_live.py` runs one of them. */

let service: Awaited<ReturnType<typeof openTestService>>
beforeAll(async () => {
  service = await openTestService({ settings: { SVC_POINTS_PER_MINUTE: '100' } })
})
afterAll(() => service?.close())

const ofClient = { 'x-comet-debug-sdk-version': '3.58.8', 'content-encoding': 'gzip' }
const batch = '/clientlib/batch/logger/experiment/metric'

function send(path: string, body: object, headers: Record<string, string> = {}) {
  return service.client.postRaw(path, gzipSync(JSON.stringify(body)), { headers: { ...ofClient, ...headers } })
}

it('a point that is sent again in another batch is stored once; equal points of one batch are all stored', async () => {
  const experimentKey = await service.client.createExperiment()
  const at = (step: number) => ({
    metricName: 'loss',
    metricValue: step / 7,
    step,
    timestamp: 1_700_000_000_000 + step,
  })
  const same = { metricName: 'loss', metricValue: '-0', step: 9, timestamp: 1 }
  for (const values of [
    [at(1), at(2), same, same],
    [at(2), at(3), same],
    [same, at(1)],
  ]) {
    expect((await send(batch, { experimentKey, values })).status).toBe(200)
  }
  await service.client.readPoints(experimentKey, 'loss', 5)
  const found = await service.client.readMetric(experimentKey, 'loss')
  expect(found.map((it) => it.step)).toEqual([1, 2, 3, 9, 9])
})

it('a wrong point is told, and all others are stored; resource usage is apart from metrics', async () => {
  const experimentKey = await service.client.createExperiment()
  const values = [
    { metricName: 'loss', metricValue: 'text' },
    { metricName: 'loss', metricValue: 'True', step: 2, epoch: 0.75 },
    { metricName: 'node1.sys.cpu.percent.avg', metricValue: 5 },
  ]
  const answer = await send(batch, { experimentKey, values })
  expect([answer.status, answer.body.sdk_error_code]).toEqual([400, 8000020])
  expect(answer.body.msg).toMatch(/^values\[0\]\.metricValue: .*\(1 wrong in this batch; all others were stored\)$/)
  const [point] = await service.client.readPoints(experimentKey, 'loss', 1)
  expect(point).toMatchObject({ metricValue: '1.0', step: 2, epoch: 0 })
  await service.client.readPoints(experimentKey, 'node1.sys.cpu.percent.avg', 1)
  const { body } = await service.client.get(`/experiment/system-details?experimentKey=${experimentKey}`)
  expect(body.systemMetricNames).toEqual(['node1.sys.cpu.percent.avg'])
})

it('output of a run that is sent again is stored once; two calls of the reader of the same client are both stored', async () => {
  const experimentKey = await service.client.createExperiment()
  const lines = (output: string, localTimestamp: number) => ({
    experimentKey,
    outputLines: [{ output, offset: 0, localTimestamp, stderr: false }],
  })
  // The time since a machine started says nothing about the order.
  for (const uptime of [90_000_000, 5]) await send('/write/experiment/output', lines('of a run\n', uptime))
  for (const _ of [1, 2])
    await send('/write/experiment/output', lines('of a call\n', 5), { 'x-comet-sdk-source': 'API' })
  await eventually(async () => {
    const { body } = await service.client.get(`/experiment/output?experimentKey=${experimentKey}`)
    expect(String(body.output).trim().split(/\n+/).toSorted()).toEqual(['of a call', 'of a call', 'of a run'])
  })
})

it('an unknown key gets 400 with its code, because these clients read no other status', async () => {
  for (const path of [batch, '/clientlib/logger/add/run']) {
    const answer = await service.client.postRaw(path, '{}', { apiKey: 'a-key-that-nobody-has' })
    expect([answer.status, answer.body.sdk_error_code], path).toEqual([400, 90212])
  }
  const elsewhere = await service.client.get('/workspaces', { apiKey: 'a-key-that-nobody-has' })
  expect(elsewhere.status).toBe(401)
})

it('a limit says how long to wait in the header that these clients read', async () => {
  const experimentKey = await service.client.createExperiment()
  const values = Array.from({ length: 90 }, (_, step) => ({ metricName: 'loss', metricValue: 1, step }))
  await send(batch, { experimentKey, values })
  const throttled = await send(batch, { experimentKey, values })
  expect(throttled.status).toBe(429)
  expect(throttled.headers.get('retry-after-custom')).toMatch(/^\d+$/)
  expect(throttled.headers.get('retry-after-custom')).toBe(throttled.headers.get('retry-after'))
})

it('a run goes on whatever time its clients said that it began', async () => {
  for (const startTimeMillis of ['-9223372036854775808', '9223372036854775807', '-1']) {
    const experimentKey = await service.client.createExperiment()
    await service.client.post('/write/experiment/set-start-end-time', { experimentKey, startTimeMillis })
    const answer = await service.client.post('/clientlib/logger/get/run', { previousExperiment: experimentKey })
    expect(answer.status, answer.text).toBe(200)
    expect(answer.body.lastOffset, startTimeMillis).toBeGreaterThanOrEqual(0)
  }
})

it('a request to create a run that is repeated answers the same, until the run has begun', async () => {
  const body = { experimentKey: 'a'.repeat(40), teamName: service.workspaceName, projectName: 'runs' }
  const add = (more = {}) => service.client.post('/clientlib/logger/add/run', { ...body, ...more })
  const first = await add()
  expect((await add()).body).toEqual(first.body)
  const report = { experimentKey: body.experimentKey, is_alive: true }
  await service.client.post('/clientlib/status-report/update', report)
  await eventually(async () => expect((await add()).body.sdk_error_code).toBe(90999))
  // An archive completes a run until the run has ended.
  expect((await add({ offline: true })).status).toBe(200)
  await service.client.post('/clientlib/status-report/update', { ...report, is_alive: false })
  expect((await add({ offline: true })).body.sdk_error_code).toBe(90999)
  expect((await add({ getOrCreateEnabled: true })).body.runId).toBe(body.experimentKey)
})
