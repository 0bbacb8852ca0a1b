import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Point } from '../../../ingest/points/point.ts'
import { createSeriesLimits } from '../../../ingest/points/series-limits.ts'
import type { GivenLimits } from '../../../store/limits.ts'
import { eventually } from '../../kit/eventually.ts'
import { openTestService } from '../../kit/service.ts'

/** Limits over a store that has these points of an experiment already. */
function openLimits(stored: Record<string, number> = {}, { isAway = false } = {}) {
  const asked: string[] = []
  let nowMs = 0
  const answer = async <T>(question: string, value: T) => {
    asked.push(question)
    if (isAway) throw new Error('away')
    return value
  }
  const counts = Object.values(stored)
  const limitSeries = createSeriesLimits({
    findTotals: () => answer('totals', { series: counts.length, pointsMost: Math.max(0, ...counts) }),
    findPointsBySeries: () => answer('names', new Map(Object.entries(stored))),
    onError: () => undefined,
    defaults: { metricNamesMax: 3, pointsPerMetricMax: 10 },
    now: () => nowMs,
  })
  return {
    asked,
    pass(seconds: number) {
      nowMs += seconds * 1_000
    },
    /** Sends points of these metrics and answers those that are kept, each with its place, and what was dropped. */
    async send(names: string[], limits: GivenLimits = {}) {
      const points = names.map(toPoint)
      const rowIndexes = points.map((_, at) => at)
      const dropped = await limitSeries({ id: 1n, limits }, { points, rowIndexes })
      return [
        points.map((it, at) => `${rowIndexes[at]} ${it.context}${it.metric}`),
        dropped.overNames,
        dropped.overPoints,
      ]
    },
  }
}

/** `loss`, or `train/loss` in a context. */
function toPoint(name: string): Point {
  const [metric, context] = name.split('/').toReversed() as [string, string?]
  return { metric, context: context ?? '', value: 1, step: 1, epoch: undefined, timestamp: undefined }
}

const times = (count: number, name: string) => Array<string>(count).fill(name)

describe('limits by count', () => {
  it('keep the points of the first names and drop those of further ones', async () => {
    const { send } = openLimits()
    expect(await send(['a', 'b', 'c', 'd', 'a', 'e'])).toEqual([['0 a', '1 b', '2 c', '4 a'], 2, 0])
    expect(await send(['d'])).toEqual([[], 1, 0])
    expect(await send(['c'])).toEqual([['0 c'], 0, 0])
  })

  it('count a metric in a context as a name of its own', async () => {
    const { send } = openLimits()
    expect(await send(['loss', 'train/loss', 'test/loss', 'dev/loss', 'train/loss'])).toEqual([
      ['0 loss', '1 trainloss', '2 testloss', '4 trainloss'],
      1,
      0,
    ])
  })

  it('keep the allowed points of a metric, and all points of other metrics', async () => {
    const { send } = openLimits()
    expect(await send(times(8, 'a'))).toEqual([expect.anything(), 0, 0])
    expect(await send(['a', 'a', 'a', 'b', 'a'])).toEqual([['0 a', '1 a', '3 b'], 0, 2])
  })

  it('count points stored before this process started', async () => {
    const { send, asked } = openLimits({ a: 9, b: 1 })
    expect(await send(['a', 'a', 'c', 'd', 'b'])).toEqual([['0 a', '2 c', '4 b'], 1, 1])
    expect(asked).toEqual(['totals', 'names'])
  })

  it('query the names only when the totals may reach a limit', async () => {
    const { send, asked } = openLimits({ a: 2 })
    await send(['a', 'b'])
    expect(asked).toEqual(['totals'])
    await send(['a'])
    await send(['b'])
    expect(asked).toEqual(['totals', 'names'])
  })

  it('follow the limits of the experiment, also after they are raised', async () => {
    const { send } = openLimits()
    expect(await send(['a', 'b'], { metricNamesMax: 1 })).toEqual([['0 a'], 1, 0])
    expect(await send(['a', 'b', 'c', 'd', 'e'], { metricNamesMax: 5 })).toEqual([expect.anything(), 0, 0])
    expect(await send(times(12, 'a'), { pointsPerMetricMax: 12 })).toEqual([
      expect.objectContaining({ length: 10 }),
      0,
      2,
    ])
  })

  it('query again after enough points and some seconds, to count points of other processes', async () => {
    const stored: Record<string, number> = { a: 1 }
    const { send, asked, pass } = openLimits(stored)
    await send(['a', 'b'])
    await send(['b', 'b'])
    expect(asked).toEqual(['totals', 'names'])
    Object.assign(stored, { c: 1, b: 9 })
    await send(['a'])
    expect(asked).toEqual(['totals', 'names'])
    pass(6)
    await send(['a'])
    expect(asked).toEqual(['totals', 'names', 'names'])
    expect(await send(['b', 'b', 'c', 'd'])).toEqual([['0 b', '2 c'], 1, 1])
  })

  it('never hold up a write while ClickHouse is away: only what was seen here counts', async () => {
    const { send } = openLimits({ a: 9, b: 1, x: 1 }, { isAway: true })
    expect(await send(['a', 'b', 'c', 'd'])).toEqual([['0 a', '1 b', '2 c'], 1, 0])
  })

  it('wait only briefly for a store that does not answer', async () => {
    const never = new Promise<never>(() => undefined)
    const limitSeries = createSeriesLimits({
      findTotals: () => never,
      findPointsBySeries: () => never,
      onError: () => undefined,
      defaults: { metricNamesMax: 1, pointsPerMetricMax: 1 },
      now: () => 0,
    })
    const points = [toPoint('a'), toPoint('b')]
    expect(await limitSeries({ id: 1n, limits: {} }, { points, rowIndexes: [0, 1] })).toEqual({
      overNames: 1,
      overPoints: 0,
    })
  })
})

describe('over HTTP', () => {
  let service: Awaited<ReturnType<typeof openTestService>>
  const settings = { SVC_METRIC_NAMES_MAX: '4', SVC_POINTS_PER_METRIC_MAX: '20' }
  beforeAll(async () => {
    service = await openTestService({ settings })
  })
  afterAll(() => service?.close())

  it('a batch over the limits answers 200, tells how much was dropped, and keeps the rest', async () => {
    const { client } = service
    const experimentKey = await client.createExperiment()
    const steps = Array.from({ length: 25 }, (_, step) => step)
    const series = ['a', 'b', 'c', 'd', 'e', 'f'].map((metricName) => ({ metricName, steps, values: steps }))
    const answer = await client.post('/write/experiment/metrics/batch', { experimentKey, series })

    expect(answer.status).toBe(200)
    expect(answer.body).toMatchObject({ accepted: 80, throttled: 70, rejectedCount: 0, rejected: [] })
    const single = { experimentKey, metricName: 'one more', metricValue: 1 }
    expect((await client.post('/write/experiment/metric', single)).text).toContain('"msg":"Saved"')
    const points = await client.readPoints(experimentKey, 'd', 20)
    expect(points.map((it) => it.step)).toEqual(steps.slice(0, 20))
    for (const name of ['e', 'f', 'one more']) expect(await client.readMetric(experimentKey, name)).toEqual([])
    await eventually(async () => {
      const { body } = await client.get(`/experiment/metadata?experimentKey=${experimentKey}`)
      expect(body.throttleReasons).toEqual([
        'metric points: too many metric names',
        'metric points: too many of one metric',
      ])
    })
  })

  it('a process that starts later counts from the stored points', async () => {
    const { client, apiKey } = service
    const steps = Array.from({ length: 15 }, (_, step) => step)
    const send = (to: typeof client, experimentKey: string, names: string[]) =>
      to.post(
        '/write/experiment/metrics/batch',
        { experimentKey, series: names.map((metricName) => ({ metricName, steps, values: steps })) },
        { apiKey },
      )
    const later = await openTestService({ settings })
    try {
      // What is stored is waited for only briefly, and a busy machine may answer too late: then another one is tried.
      await eventually(async () => {
        const experimentKey = await client.createExperiment()
        const first = await send(client, experimentKey, ['a', 'b', 'c'])
        expect(first.body).toMatchObject({ accepted: 45, throttled: 0 })
        for (const name of ['a', 'b', 'c']) await client.readPoints(experimentKey, name, 15)
        const answer = await send(later.client, experimentKey, ['a', 'd', 'e'])
        expect(answer.body).toMatchObject({ accepted: 5 + 15, throttled: 10 + 15 })
      })
    } finally {
      await later.close()
    }
  })
})
