import { afterAll, beforeAll, expect, it } from 'vitest'
import { parseExactJson } from '../../../http/body/exact-json.ts'
import { aPoint } from '../../kit/builders.ts'
import { eventually } from '../../kit/eventually.ts'
import type { TestClient } from '../../kit/http/client.ts'
import { openTwoUsers, type TwoUsers } from '../accounts/two-users.ts'
import { codes, expectRefusal } from '../http-error.ts'

const chartTooLarge = 8000045

type Numbers = (number | bigint | null)[]
type Series = {
  experimentKey: string
  metricName: string
  context: string | null
  bucketed: boolean
  total: number
  withoutX: number
} & Record<'x' | 'xTo' | 'min' | 'max' | 'first' | 'last' | 'mean' | 'count' | 'nonFinite', Numbers>
type Ranges = { position: string | null; from: number | null; to: number | null; series: Series[] }

let service: TwoUsers
let client: TestClient
beforeAll(async () => {
  service = await openTwoUsers()
  client = service.client
})
afterAll(() => service?.close())

async function read(fields: Record<string, unknown>, by = client): Promise<Ranges> {
  const answer = await by.post('/experiments/series', fields)
  expect(answer.status, answer.text).toBe(200)
  return parseExactJson(answer.text) as Ranges
}

type Point = Partial<ReturnType<typeof aPoint>> & { context?: string }

/** An experiment with points, all of them readable. */
async function anExperiment(points: Point[]): Promise<string> {
  const experimentKey = await client.createExperiment()
  const metrics = points.map((it) => aPoint(it))
  for (let from = 0; from < metrics.length; from += 10_000) {
    const part = metrics.slice(from, from + 10_000)
    const { body } = await client.post('/write/experiment/metrics/batch', { experimentKey, metrics: part })
    expect(body.rejected).toEqual([])
  }
  for (const name of new Set(metrics.map((it) => it.metricName))) {
    await expectTotal(experimentKey, name, metrics.filter((it) => it.metricName === name).length)
  }
  return experimentKey
}

/** Waits until all points of a metric are in its range. Its extent is that of the summary, which comes a moment after the points. */
async function expectTotal(experimentKey: string, metricName: string, total: number): Promise<void> {
  await eventually(async () => {
    const count = async (x: 'time' | 'step') => {
      const { series } = await read({ points: 1, x, series: [{ experimentKey, metricName }] })
      return series.reduce((sum, it) => sum + it.total + it.withoutX, 0)
    }
    expect(await count('time')).toBe(total)
    // Of points without a step there is no range.
    expect([0, total]).toContain(await count('step'))
  })
}

const at = 1_700_000_000_000

it('every point of a long series is in a bucket: the spike, the values that are not finite, and each point of a zoom', async () => {
  const odd: Record<number, unknown> = { 7777: 1e9, 12000: 'NaN', 12001: 'Infinity', 15000: '-Infinity' }
  const steps = 20_000
  const points = Array.from({ length: steps }, (_, step) => ({
    step,
    metricValue: (odd[step] ?? step) as number,
    timestamp: at + 10 * step,
    epoch: Math.floor(step / 100),
  }))
  const key = await anExperiment([
    ...points,
    ...points.map((it) => ({ ...it, metricName: 'other', metricValue: -it.step / 2 })),
    { metricName: 'stepless', step: undefined, metricValue: 5, timestamp: at },
  ])
  const startTimeMillis = at - 5_000
  await client.post('/write/experiment/set-start-end-time', { experimentKey: key, startTimeMillis })
  const series = [{ experimentKey: key, metricName: 'loss' }]

  // Against the same done by hand.
  const whole = await read({ series, points: 40 })
  const [loss] = whole.series as [Series]
  expect([whole.from, whole.to, loss.bucketed, loss.total, loss.withoutX]).toEqual([0, steps - 1, true, steps, 0])
  for (let bucket = 0; bucket < 40; bucket++) {
    const values = points.slice(bucket * 500, (bucket + 1) * 500).map((it) => Number(it.metricValue))
    const finite = values.filter(Number.isFinite)
    const orNull = (value: number | undefined) => (Number.isFinite(value) ? value : null)
    expect([loss.x[bucket], loss.xTo[bucket], loss.count[bucket], loss.nonFinite[bucket]]).toEqual([
      bucket * 500,
      bucket * 500 + 499,
      500,
      500 - finite.length,
    ])
    expect([loss.min[bucket], loss.max[bucket], loss.first[bucket], loss.last[bucket]]).toEqual([
      Math.min(...finite),
      Math.max(...finite),
      orNull(values[0]),
      orNull(values.at(-1)),
    ])
    expect(loss.mean[bucket]).toBeCloseTo(finite.reduce((sum, it) => sum + it, 0) / finite.length, 4)
  }
  expect(loss.max[15]).toBe(1e9)

  // The same range by each axis, down to single points.
  const expected = [7_775, 7_776, 1e9, 7_778]
  const zooms: [x: unknown, from: number, to: number, xs: number[]][] = [
    ['step', 7_774.5, 7_778.5, [7_775, 7_776, 7_777, 7_778]],
    ['time', at + 77_750, at + 77_780, [at + 77_750, at + 77_760, at + 77_770, at + 77_780]],
    ['relative', 82.75, 82.78, [82.75, 82.76, 82.77, 82.78]],
    [{ metricName: 'other' }, -3_889, -3_887.5, [-3_889, -3_888.5, -3_888, -3_887.5]],
  ]
  for (const [x, from, to, xs] of zooms) {
    const zoomed = (await read({ series, x, from, to, points: 4 })).series[0] as Series
    const inOrder = typeof x === 'object' ? expected.toReversed() : expected
    expect(zoomed, JSON.stringify(x)).toEqual(
      expect.objectContaining({ bucketed: false, total: 4, x: xs, last: inOrder }),
    )
    // With one bucket fewer than points it is thinned.
    const thinned = (await read({ series, x, from, to, points: 3 })).series[0] as Series
    expect([thinned.bucketed, thinned.total, Math.max(...(thinned.max as number[]))]).toEqual([true, 4, 1e9])
  }
  const byEpoch = (await read({ series, x: 'epoch', points: 200 })).series[0] as Series
  expect([byEpoch.x.length, byEpoch.x[77], byEpoch.max[77], byEpoch.count[77]]).toEqual([200, 77, 1e9, 100])
  const byOther = (await read({ series, x: { metricName: 'other' }, points: 10 })).series[0] as Series
  expect((byOther.count as number[]).reduce((sum, it) => sum + it)).toBe(steps)

  // Points without the value of x are counted, and an empty range is no error.
  const stepless = [{ experimentKey: key, metricName: 'stepless' }]
  expect((await read({ series: stepless, x: 'time' })).series).toMatchObject([{ total: 1, withoutX: 0, x: [at] }])
  expect((await read({ series: [...series, ...stepless], points: 10 })).series[1]).toMatchObject({
    total: 0,
    withoutX: 1,
  })
  expect(await read({ series, from: 30_000, to: 40_000 })).toMatchObject({ series: [] })
  expect((await read({ series, x: { metricName: 'absent' } })).series).toEqual([])
})

it('many series in one read: contexts, equal buckets, 64-bit extremes, repeated deliveries counted once', async () => {
  const steps = Array.from({ length: 60 }, (_, step) => step)
  const [top, bottom] = [9_223_372_036_854_775_807n, -9_223_372_036_854_775_808n]
  const one = await anExperiment([
    ...steps.map((step) => ({ step, metricValue: step })),
    ...steps.map((step) => ({ step: step * 2, metricValue: 1, context: 'train' })),
    { metricName: 'ends', step: String(top) as never, metricValue: 1 },
    { metricName: 'ends', step: String(bottom) as never, metricValue: 2 },
    { metricName: 'ends', step: 0, metricValue: 3 },
  ])
  const two = await client.createExperiment()
  const repeated = { experimentKey: two, metrics: steps.map((step) => aPoint({ step, metricValue: 10 })) }
  const once = { headers: { 'idempotency-key': two } }
  for (let time = 0; time < 3; time++) await client.post('/write/experiment/metrics/batch', repeated, once)
  await client.post('/write/experiment/metric', { experimentKey: two, ...aPoint({ step: 119 }) })
  await expectTotal(two, 'loss', 61)

  const read_ = await read({
    points: 12,
    series: [
      { experimentKey: two, metricName: 'loss' },
      { experimentKey: one, metricName: 'loss' },
      { experimentKey: one, metricName: 'train_loss' },
      { experimentKey: one, metricName: 'absent' },
      { experimentKey: 'a'.repeat(32), metricName: 'loss' },
    ],
  })
  expect([read_.from, read_.to]).toEqual([0, 119])
  expect(read_.series.map((it) => [it.experimentKey, it.context, it.total])).toEqual([
    [two, null, 61],
    [one, null, 60],
    [one, 'train', 60],
  ])
  const [repeats, plain, train] = read_.series as [Series, Series, Series]
  expect(repeats.count).toEqual([10, 10, 10, 10, 10, 10, 1])
  expect(repeats.mean.slice(0, 6)).toEqual([10, 10, 10, 10, 10, 10])
  expect([plain.x, plain.mean]).toEqual([
    [0, 10, 20, 30, 40, 50],
    [4.5, 14.5, 24.5, 34.5, 44.5, 54.5],
  ])
  expect(train.count).toEqual(Array.from({ length: 12 }, () => 5))

  const ends = (points: number) => read({ points, series: [{ experimentKey: one, metricName: 'ends' }] })
  expect((await ends(3)).series[0]).toMatchObject({ x: [bottom, 0, top], last: [2, 3, 1] })
  expect((await ends(2)).series[0]).toMatchObject({ x: [bottom, 0], xTo: [bottom, top], count: [1, 2], max: [2, 3] })
  expect((await ends(1)).series[0]).toMatchObject({ x: [bottom], xTo: [top], count: [3] })

  // What this key may not see looks as if it had no points.
  const series = [{ experimentKey: one, metricName: 'loss' }]
  expect((await read({ series }, service.stranger)).series).toEqual([])
})

it('a read over a limit names the field', async () => {
  const post = (fields: Record<string, unknown>) => client.post('/experiments/series', fields)
  const one = { experimentKey: 'a'.repeat(32), metricName: 'loss' }
  expectRefusal(
    await post({ series: Array.from({ length: 1_001 }, () => one), points: 1_000 }),
    400,
    chartTooLarge,
    /^points: /,
  )
  expectRefusal(await post({ series: [one], points: 0 }), 400, codes.badRequest, /^points: /)
  expectRefusal(await post({ series: [one], x: 'foot' }), 400, codes.badRequest, /^x: /)
  expectRefusal(await post({ series: [{}] }), 400, codes.badRequest, /^series\[0\].experimentKey: /)
})
