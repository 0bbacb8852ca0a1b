import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Batch, countPoints, readBatch, readEnvelope } from '../../../ingest/points/batch.ts'
import { readPoint } from '../../../ingest/points/point.ts'
import { present } from '../../../store/clickhouse/points/tables.ts'
import { codes, expectRefusal } from '../../api/http-error.ts'
import { aPoint } from '../../kit/builders.ts'
import { openTestService } from '../../kit/service.ts'

/** The points of a batch, by series, each with its index in the request. */
const listPoints = ({ series }: Batch) =>
  series.flatMap(({ metric, context, present: bits, presents, ...it }) =>
    Array.from(it.values, (value, at) => ({
      metric,
      context,
      value,
      step: (presents?.[at] ?? bits) & present.step ? it.steps?.[at] : undefined,
      index: it.places?.[at] ?? it.firstPlace + at,
    })),
  )
const listIndexes = (batch: Batch) => listPoints(batch).map((it) => it.index)

const read = (body: Record<string, unknown>) => readBatch(readEnvelope({ experimentKey: 'x', ...body } as never))

describe('reading a batch', () => {
  it('each invalid point is named with its index and field, and valid ones keep their index', () => {
    const batch = read({
      metrics: [aPoint(), { ...aPoint(), step: 'x' }, null, 5, [], { metricName: 'a' }, aPoint({ step: 2 })],
      series: [{ metricName: 'b', steps: [1, 'x', 3], values: [1, 2, 'y'] }],
    })

    expect(batch.rejected).toEqual([
      { index: 1, msg: 'metrics[1].step: expected an integer from -2^63 to 2^63-1' },
      { index: 2, msg: 'metrics[2]: is missing' },
      { index: 3, msg: 'metrics[3]: expected an object' },
      { index: 4, msg: 'metrics[4]: expected an object' },
      { index: 5, msg: 'metrics[5].metricValue: is missing' },
      { index: 8, msg: 'series[0][1].step: expected an integer from -2^63 to 2^63-1' },
      {
        index: 9,
        msg: 'series[0][2].metricValue: expected a number, or one of "NaN", "Infinity", "-Infinity" as a string',
      },
    ])
    expect(batch.rejectedCount).toBe(7)
    expect(listIndexes(batch)).toEqual([0, 6, 7])
    expect(listPoints(batch).map((it) => it.step)).toEqual([1, 2, 1])
  })

  it('rows in any order are put into their series, each in its place', () => {
    const row = fc.record({
      metricName: fc.constantFrom('a', 'b', 'a_b', ''),
      context: fc.constantFrom('', 'a', null, undefined),
      runContext: fc.constantFrom('b', null, undefined),
      metricValue: fc.constantFrom<unknown>(1, -0, 'NaN', 'x'),
      step: fc.constantFrom<unknown>(1, 2n ** 60n, null, 'y'),
    })
    fc.assert(
      fc.property(fc.array(row, { maxLength: 40 }), (metrics) => {
        const expected = metrics.flatMap((it, index) => {
          const point = readPoint(it, () => '')
          return typeof point === 'string' ? [] : [{ ...point, index }]
        })
        const bySeries = Object.values(Object.groupBy(expected, (it) => JSON.stringify([it.metric, it.context]))).flat()
        const found = listPoints(read({ metrics }))
        expect(found).toEqual(bySeries.map((it) => ({ ...it, epoch: undefined, timestamp: undefined })))
      }),
      { numRuns: 2_000 },
    )
  })

  it('a series with columns of different lengths is rejected as a whole, and counted', () => {
    const batch = read({
      series: [
        { metricName: 'a', steps: [1, 2], values: [1, 2, 3] },
        { metricName: 'b', epochs: [], values: [1] },
        { metricName: 'c', timestamps: 'x', values: [1, 2] },
        { metricName: 'd', steps: null, values: [1, 2] },
        { metricName: 'e' },
        'x',
        { metricName: 'f', values: [] },
        { metricName: 'g', runContext: 'r', steps: [null, 5], values: [1, 2] },
      ],
    })

    expect(batch.rejected).toEqual([
      { index: 0, msg: 'series[0].steps: has 2 entries, but values has 3; none of its points was stored' },
      { index: 3, msg: 'series[1].epochs: has 0 entries, but values has 1; none of its points was stored' },
      { index: 4, msg: 'series[2].timestamps: expected a list; none of its points was stored' },
      { index: 8, msg: 'series[4].values: expected a list' },
      { index: 9, msg: 'series[5]: expected an object' },
    ])
    expect(batch.rejectedCount).toBe(8)
    expect(listPoints(batch).map((it) => [it.metric, it.context, it.step])).toEqual([
      ['d', '', undefined],
      ['d', '', undefined],
      ['g', 'r', undefined],
      ['g', 'r', 5],
    ])
    expect(listIndexes(batch)).toEqual([6, 7, 10, 11])
  })

  it('every point of a batch has its own index, below the number of points', () => {
    const envelope = readEnvelope({
      experimentKey: 'x',
      metrics: Array.from({ length: 10 }, (_, step) => ({ ...aPoint({ step }) })),
      series: [
        { metricName: 'a', values: [1, 2, 3] },
        { metricName: 'b', values: 5 },
        { metricName: 'c', values: [1] },
      ],
    })
    const indexes = listIndexes(readBatch(envelope))

    expect(new Set(indexes).size).toBe(14)
    expect(Math.max(...indexes)).toBeLessThan(countPoints(envelope))
  })

  it('a series with firstIndex counts its points from there, and the others as before', () => {
    const batch = read({
      series: [
        { metricName: 'a', firstIndex: 4_000_000_000, steps: [1, 'x', 3], values: [1, 2, 3] },
        { metricName: 'b', values: [1, '2'] },
        { metricName: 'c', firstIndex: 0, values: [1] },
        { metricName: 'd', firstIndex: 2 ** 32 - 1, values: [1, 2] },
        { metricName: 'e', firstIndex: -1, values: [1] },
        { metricName: 'f', firstIndex: '1', values: [1] },
      ],
    })

    expect(listIndexes(batch)).toEqual([4_000_000_000, 4_000_000_002, 3, 4, 0])
    expect(batch.rejected.map(({ index, msg }) => [index, msg.slice(0, 21)])).toEqual([
      [1, 'series[0][1].step: ex'],
      [6, 'series[3].firstIndex:'],
      [8, 'series[4].firstIndex:'],
      [9, 'series[5].firstIndex:'],
    ])
    expect(batch.rejectedCount).toBe(5)
  })

  it('names the first thousand bad points, and counts all', () => {
    const batch = read({ metrics: Array(5_000).fill({}) })

    expect([batch.rejected.length, batch.rejectedCount]).toEqual([1_000, 5_000])
    expect(batch.rejected.at(-1)).toEqual({ index: 999, msg: 'metrics[999].metricName: is missing' })
  })
})

describe('metrics/batch', () => {
  let service: Awaited<ReturnType<typeof openTestService>>
  beforeAll(async () => {
    service = await openTestService()
  })
  afterAll(() => service?.close())

  it('stores the good points and names the bad ones', async () => {
    const { client } = service
    const experimentKey = await client.createExperiment()
    const bad = [{ metricValue: 'x' }, { metricName: '' }, { metricName: 'a\0' }, { context: '\ud800' }, { step: 0.5 }]

    const answer = await client.post('/write/experiment/metrics/batch', {
      experimentKey,
      metrics: bad.flatMap((fault, at) => [aPoint({ step: at }), { ...aPoint(), ...fault }]),
    })

    expect([answer.status, answer.headers.get('content-type')]).toEqual([200, 'application/json'])
    expect(answer.body).toEqual({
      msg: 'Saved',
      accepted: 5,
      rejected: [
        {
          index: 1,
          msg: 'metrics[1].metricValue: expected a number, or one of "NaN", "Infinity", "-Infinity" as a string',
        },
        { index: 3, msg: 'metrics[3].metricName: must not be empty' },
        { index: 5, msg: 'metrics[5].metricName: must not hold NUL or half of a surrogate pair' },
        { index: 7, msg: 'metrics[7].context: must not hold NUL or half of a surrogate pair' },
        { index: 9, msg: 'metrics[9].step: expected an integer from -2^63 to 2^63-1' },
      ],
      rejectedCount: 5,
      throttled: 0,
      code: 200,
      data: null,
      sdk_error_code: 0,
    })
    const points = await client.readPoints(experimentKey, 'loss', 5)
    expect(points.map((it) => it.step)).toEqual([0, 1, 2, 3, 4])
  })

  it('a source that is read again in other parts, and has grown, is stored once', async () => {
    const { client } = service
    const experimentKey = await client.createExperiment()
    const steps = [0, 1, 1, 1, 2, 3]
    const send = (first: number, end: number) =>
      client.post(
        '/write/experiment/metrics/batch',
        {
          experimentKey,
          series: ['loss', 'rate'].map((metricName) => ({
            metricName,
            firstIndex: first,
            steps: steps.slice(first, end),
            timestamps: steps.slice(first, end).map(() => 1_700_000_000_000),
            values: steps.slice(first, end).map(() => 0.5),
          })),
        },
        { headers: { 'idempotency-key': 'import of a file' } },
      )
    for (const [first, end] of [
      [0, 3],
      [0, 2],
      [2, 6],
      [1, 5],
      [0, 6],
    ] as const) {
      expect((await send(first, end)).status).toBe(200)
    }
    await send(6, 6)

    for (const metric of ['loss', 'rate']) {
      const points = await client.readPoints(experimentKey, metric, 6)
      expect(points.map((it) => it.step)).toEqual(steps)
    }
  })

  it('rejects too many points, however few bytes they have', async () => {
    const { client } = service
    const experimentKey = await client.createExperiment()
    const values = Array(1_000_001).fill(1)
    const body = JSON.stringify({ experimentKey, series: [{ metricName: 'many', values }] })
    expectRefusal(
      await client.postRaw('/write/experiment/metrics/batch', body),
      413,
      codes.tooLarge,
      /1000000 in one request/,
    )
  })

  it('an empty batch is accepted, a batch without the field for points is not', async () => {
    const { client } = service
    const experimentKey = await client.createExperiment()

    const empty = await client.post('/write/experiment/metrics/batch', { experimentKey, metrics: [], series: null })
    const nothing = await client.post('/write/experiment/metrics/batch', { experimentKey, metrics: null })

    expect(empty.body).toMatchObject({ code: 200, accepted: 0, rejected: [], rejectedCount: 0 })
    const message = 'metrics: is missing (send points as "metrics", or whole series as "series")'
    expectRefusal(nothing, 400, codes.badRequest, message)
  })

  it('accepts a body near the limit of 16 MiB, and rejects a larger one without storing anything', async () => {
    const { client } = service
    const experimentKey = await client.createExperiment()
    const bodyOf = (values: number) =>
      JSON.stringify({ experimentKey, series: [{ metricName: 'many', values: Array(values).fill(0.25) }] })

    const accepted = await client.postRaw('/write/experiment/metrics/batch', bodyOf(1_000_000))
    const refused = await client.postRaw('/write/experiment/metrics/batch', bodyOf(3_400_000))

    expect(accepted.body).toMatchObject({ accepted: 1_000_000 })
    const message = 'The body is over the limit of 16777216 bytes: send less in one request.'
    expectRefusal(refused, 413, codes.tooLarge, message)
  })
})
