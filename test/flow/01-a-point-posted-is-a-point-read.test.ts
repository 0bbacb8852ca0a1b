import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { aPoint } from '../kit/builders.ts'
import { availableQueues, openTestService, storesWith } from '../kit/service.ts'

describe.each(availableQueues())('with the queue in %s', (queue) => {
  let service: Awaited<ReturnType<typeof openTestService>>
  beforeAll(async () => {
    service = await openTestService({ stores: storesWith(queue) })
  })
  afterAll(() => service?.close())

  it('a point posted is a point read, with everything it was sent with', async () => {
    const { client } = service
    const experimentKey = await client.createExperiment()

    const answer = await client.post('/write/experiment/metric', {
      experimentKey,
      ...aPoint({ metricValue: 0.1, context: 'train', step: 7, epoch: 2 }),
    })

    expect(answer.status).toBe(200)
    expect(answer.headers.get('content-type')).toBe('application/json')
    expect(answer.text).toBe('{"msg":"Saved","code":200,"data":null,"sdk_error_code":0}')
    const points = await client.readPoints(experimentKey, 'loss', 1)
    expect(points).toEqual([
      { metricName: 'loss', metricValue: '0.1', timestamp: 1_700_000_000_000, step: 7, epoch: 2, runContext: 'train' },
    ])
  })

  it('a batch of rows and columns is read back point for point', async () => {
    const { client } = service
    const experimentKey = await client.createExperiment()
    const steps = Array.from({ length: 500 }, (_, step) => step)

    const answer = await client.post('/write/experiment/metrics/batch', {
      experimentKey,
      metrics: steps.map((step) => aPoint({ metricName: 'rows', step, metricValue: Math.sin(step) })),
      series: [{ metricName: 'columns', steps, values: steps.map(Math.cos), timestamps: steps }],
    })

    expect(answer.body).toMatchObject({ code: 200, accepted: 1000, rejected: [], throttled: 0 })
    const rows = await client.readPoints(experimentKey, 'rows', 500)
    const columns = await client.readPoints(experimentKey, 'columns', 500)
    expect(rows.map((it) => [it.step, Number(it.metricValue)])).toEqual(steps.map((step) => [step, Math.sin(step)]))
    expect(columns.map((it) => [it.timestamp, Number(it.metricValue)])).toEqual(
      steps.map((step) => [step, Math.cos(step)]),
    )
  })

  it('a request repeated with its Idempotency-Key is there once', async () => {
    const { client } = service
    const experimentKey = await client.createExperiment()
    const batch = { experimentKey, metrics: [1, 2, 3].map((step) => aPoint({ step })) }
    const headers = { 'idempotency-key': 'the same' }

    for (let time = 0; time < 5; time++) {
      expect((await client.post('/write/experiment/metrics/batch', batch, { headers })).status).toBe(200)
    }
    await client.post('/write/experiment/metric', { experimentKey, ...aPoint({ metricName: 'last', step: 9 }) })

    await client.readPoints(experimentKey, 'last', 1)
    expect((await client.readPoints(experimentKey, 'loss', 3)).map((it) => it.step)).toEqual([1, 2, 3])
  })

  it('two points alike in everything are there twice', async () => {
    const { client } = service
    const experimentKey = await client.createExperiment()
    const alike = aPoint({ step: 5 })

    await client.post('/write/experiment/metrics/batch', { experimentKey, metrics: [alike, alike] })
    await client.post('/write/experiment/metric', { experimentKey, ...alike })
    await client.post('/write/experiment/metric', { experimentKey, ...alike })

    const points = await client.readPoints(experimentKey, 'loss', 4)
    expect(points).toHaveLength(4)
  })

  it('one Idempotency-Key used for different points loses none of them', async () => {
    const { client } = service
    const experimentKey = await client.createExperiment()
    const headers = { 'idempotency-key': 'used twice' }

    await client.post('/write/experiment/metric', { experimentKey, ...aPoint({ metricValue: 1 }) }, { headers })
    await client.post('/write/experiment/metric', { experimentKey, ...aPoint({ metricValue: 2 }) }, { headers })

    const points = await client.readPoints(experimentKey, 'loss', 2)
    expect(points.map((it) => it.metricValue).toSorted()).toEqual(['1.0', '2.0'])
  })
})
