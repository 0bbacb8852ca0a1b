import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { parseExactJson } from '../../../http/body/exact-json.ts'
import { maxBigInt, minBigInt } from '../../../runtime/bigint.ts'
import { aPoint } from '../../kit/builders.ts'
import { eventually } from '../../kit/eventually.ts'
import { inForm } from '../../kit/form.ts'
import type { ReadPoint } from '../../kit/http/client.ts'
import { openTwoUsers, type TwoUsers } from '../accounts/two-users.ts'
import { codes, expectRefusal } from '../http-error.ts'

let service: TwoUsers
beforeAll(async () => {
  service = await openTwoUsers()
})
afterAll(() => service?.close())

type Sent = Partial<ReturnType<typeof aPoint>>

async function logBatch(experimentKey: string, metrics: Sent[], headers?: Record<string, string>) {
  const answer = await service.client.post('/write/experiment/metrics/batch', { experimentKey, metrics }, { headers })
  expect(answer.body).toMatchObject({ code: 200, accepted: metrics.length, rejectedCount: 0 })
}

type Summary = Record<string, unknown> & { name: string }

async function readSummary(experimentKey: string): Promise<Summary[]> {
  const answer = await service.client.get(`/experiment/metrics/summary?experimentKey=${experimentKey}`)
  expect([answer.status, answer.headers.get('content-type')]).toEqual([200, 'application/json'])
  return answer.body.values as Summary[]
}

/** Waits until a metric's summary, which comes a moment after its points, has what is expected. */
function expectSummary(experimentKey: string, name: string, expected: Record<string, unknown>): Promise<Summary> {
  return eventually(async () => {
    const found = (await readSummary(experimentKey)).find((it) => it.name === name)
    expect(found).toMatchObject(expected)
    return found as Summary
  })
}

describe('metrics/summary', () => {
  it('has the minimum, maximum and current value, each with its own step and time', async () => {
    const experimentKey = await service.client.createExperiment()
    await logBatch(experimentKey, [
      aPoint({ metricValue: 5, step: 1, timestamp: 1_000 }),
      aPoint({ metricValue: -3.25, step: 2, timestamp: 2_000 }),
      aPoint({ metricValue: 0.1, step: 4, timestamp: 4_000 }),
      aPoint({ metricValue: 1e300, step: 3, timestamp: 3_000 }),
    ])

    const expected = {
      name: 'loss',
      valueMax: '1.0E300',
      valueMin: '-3.25',
      valueCurrent: '0.1',
      timestampMax: 3_000,
      timestampMin: 2_000,
      timestampCurrent: 4_000,
      runContextMax: null,
      runContextMin: null,
      runContextCurrent: null,
      stepMax: 3,
      stepMin: 2,
      stepCurrent: 4,
      editable: false,
    }

    expect(await expectSummary(experimentKey, 'loss', expected)).toEqual(expected)
  })

  it('is an empty list without metrics', async () => {
    expect(await readSummary(await service.client.createExperiment())).toEqual([])
  })

  it('names a metric in a context <context>_<name>, apart from the same metric elsewhere', async () => {
    const experimentKey = await service.client.createExperiment()
    await logBatch(
      experimentKey,
      ['', 'train', 'eval'].map((context, at) => aPoint({ context, metricValue: at })),
    )

    await eventually(async () => {
      const summary = await readSummary(experimentKey)
      const shown = summary.map((it) => [
        it.name,
        it.valueCurrent,
        it.runContextMin,
        it.runContextMax,
        it.runContextCurrent,
      ])
      expect(shown).toEqual([
        ['eval_loss', '2.0', 'eval', 'eval', 'eval'],
        ['loss', '0.0', null, null, null],
        ['train_loss', '1.0', 'train', 'train', 'train'],
      ])
    })
    const points = await service.client.readMetric(experimentKey, 'train_loss')
    expect(points.map((it) => [it.metricName, it.runContext, it.metricValue])).toEqual([['loss', 'train', '1.0']])
  })

  it('NaN is neither minimum nor maximum while there is a number, and can be the current value', async () => {
    const experimentKey = await service.client.createExperiment()
    const values = ['NaN', 2, 1, 'NaN']
    await logBatch(
      experimentKey,
      values.map((metricValue, step) => aPoint({ metricValue, step, timestamp: step })),
    )

    await expectSummary(experimentKey, 'loss', {
      valueMin: '1.0',
      stepMin: 2,
      valueMax: '2.0',
      stepMax: 1,
      valueCurrent: 'NaN',
      stepCurrent: 3,
    })
  })

  it('all three are NaN for a series of NaNs, and infinities are numbers', async () => {
    const experimentKey = await service.client.createExperiment()
    const nans = [1, 2].map((step) => aPoint({ metricName: 'nan', metricValue: 'NaN', step }))
    const infinite = ['Infinity', 'NaN', 0, '-Infinity'].map((metricValue, step) =>
      aPoint({ metricName: 'infinite', metricValue, step, timestamp: step }),
    )
    await logBatch(experimentKey, [...nans, ...infinite])

    await expectSummary(experimentKey, 'nan', { valueMin: 'NaN', valueMax: 'NaN', valueCurrent: 'NaN' })
    await expectSummary(experimentKey, 'infinite', {
      valueMin: '-Infinity',
      valueMax: 'Infinity',
      valueCurrent: '-Infinity',
    })
  })

  it('zero has a sign: -0 is below 0', async () => {
    const experimentKey = await service.client.createExperiment()
    const series = '[{"metricName":"zero","steps":[1,2,3],"values":[0,-0.0,0]}]'
    const body = `{"experimentKey":"${experimentKey}","series":${series}}`
    expect((await service.client.postRaw('/write/experiment/metrics/batch', body)).body.accepted).toBe(3)

    await expectSummary(experimentKey, 'zero', { valueMin: '-0.0', stepMin: 2, valueMax: '0.0', stepMax: 1 })
  })

  it('ties do not depend on the order of arrival', async () => {
    const points = [3, 1, 2, 5, 4].flatMap((step) => [
      aPoint({ metricValue: 7, step, timestamp: 9_000 - step }),
      aPoint({ metricValue: 7, step: step + 10, timestamp: 9_000 - step }),
    ])
    const orders = [points, points.toReversed(), points.toSorted((a, b) => Number(a.step) - Number(b.step))]
    const expected = {
      ...{ timestampMin: 8_995, stepMin: 5, timestampMax: 8_995, stepMax: 5 },
      ...{ timestampCurrent: 8_999, stepCurrent: 11 },
    }

    for (const order of orders) {
      const experimentKey = await service.client.createExperiment()
      for (const point of order) await logBatch(experimentKey, [point])
      await expectSummary(experimentKey, 'loss', expected)
    }
  })

  it('equals the points for any points', async () => {
    const value = fc.oneof(
      { weight: 4, arbitrary: fc.double({ noNaN: true, noDefaultInfinity: true }) },
      fc.constantFrom('NaN', 'Infinity', '-Infinity', 0),
    )
    const few = fc.integer({ min: -5, max: 5 })
    const point = fc.record({ metricValue: value, step: few, timestamp: few })
    await fc.assert(
      fc.asyncProperty(fc.array(point, { minLength: 1, maxLength: 40 }), async (points) => {
        const experimentKey = await service.client.createExperiment()
        await logBatch(experimentKey, points.map(aPoint))
        const stored = await service.client.readPoints(experimentKey, 'loss', points.length)

        const numbers = stored.map((it) => Number(it.metricValue)).filter((it) => !Number.isNaN(it))
        const [low, high] = numbers.length > 0 ? [Math.min(...numbers), Math.max(...numbers)] : [NaN, NaN]
        const newest = Math.max(...stored.map((it) => it.timestamp))
        const step = Math.max(...stored.filter((it) => it.timestamp === newest).map((it) => Number(it.step)))
        const summary = await expectSummary(experimentKey, 'loss', { timestampCurrent: newest, stepCurrent: step })
        expect([Number(summary.valueMin), Number(summary.valueMax)]).toEqual([low, high])
        for (const part of ['Min', 'Max', 'Current']) {
          const shown = [summary[`value${part}`], summary[`timestamp${part}`], summary[`step${part}`]]
          expect(stored.map((it) => [it.metricValue, it.timestamp, it.step])).toContainEqual(shown)
        }
      }),
      { numRuns: inForm({ short: 8, middle: 12, long: 100 }) },
    )
  })

  it('a request repeated with its Idempotency-Key changes nothing', async () => {
    const experimentKey = await service.client.createExperiment()
    const points = [3, 1, 2].map((metricValue, step) => aPoint({ metricValue, step }))
    const headers = { 'idempotency-key': 'the same' }
    await logBatch(experimentKey, points, headers)
    const once = await expectSummary(experimentKey, 'loss', { valueMin: '1.0', valueMax: '3.0', valueCurrent: '2.0' })

    await logBatch(experimentKey, points, headers)
    await logBatch(experimentKey, points, headers)
    await logBatch(experimentKey, [aPoint({ metricName: 'last' })])
    await expectSummary(experimentKey, 'last', {})

    expect(await expectSummary(experimentKey, 'loss', {})).toEqual(once)
    expect(await service.client.readMetric(experimentKey, 'loss')).toHaveLength(3)
  })

  it('keeps steps and times of 64 bits to the last digit', async () => {
    const experimentKey = await service.client.createExperiment()
    const [low, high] = [-(2n ** 63n), 2n ** 63n - 1n]
    const points = [low, high].map((far) => aPoint({ metricValue: Number(far), step: String(far) }))
    const body = JSON.stringify({ experimentKey, metrics: points }).replaceAll(
      '"timestamp":1700000000000',
      `"timestamp":${low}`,
    )
    await service.client.postRaw('/write/experiment/metrics/batch', body)

    await eventually(async () => {
      const { text } = await service.client.get(`/experiment/metrics/summary?experimentKey=${experimentKey}`)
      expect(text).toContain(`"stepMin":${low},`)
      expect(text).toContain(`"stepMax":${high},`)
      expect(text).toContain(`"timestampCurrent":${low},`)
    })
  })
})

describe('metrics/get-metric', () => {
  it('returns every point in the order of context, step and time, for any order of arrival', async () => {
    const experimentKey = await service.client.createExperiment()
    const points = [
      aPoint({ context: 'b', step: 1, metricValue: 4 }),
      aPoint({ context: 'a', step: 2, metricValue: 3 }),
      aPoint({ context: 'a', step: -1, metricValue: 0 }),
      aPoint({ context: 'a', step: 1, timestamp: 2, metricValue: 2 }),
      aPoint({ context: 'a', step: 1, timestamp: 1, metricValue: 1 }),
    ]
    await logBatch(experimentKey, points)

    const read = await service.client.readPoints(experimentKey, 'loss', 5)

    expect(read.map((it) => it.metricValue)).toEqual(['0.0', '1.0', '2.0', '3.0', '4.0'])
    expect(
      (await service.client.readMetric(experimentKey, 'loss', { context: 'a' })).map((it) => it.metricValue),
    ).toEqual(['0.0', '1.0', '2.0', '3.0'])
  })

  it('absent fields are null, and an absent time is the time of arrival', async () => {
    const experimentKey = await service.client.createExperiment()
    const before = Date.now()
    await service.client.post('/write/experiment/metric', { experimentKey, metricName: 'bare', metricValue: 1 })

    const [point] = await service.client.readPoints(experimentKey, 'bare', 1)

    expect(point).toEqual({
      metricName: 'bare',
      metricValue: '1.0',
      timestamp: expect.any(Number),
      step: null,
      epoch: null,
      runContext: null,
    })
    expect(point?.timestamp).toBeGreaterThanOrEqual(before)
    expect(point?.timestamp).toBeLessThanOrEqual(Date.now())
  })

  it('an unknown metric has no points', async () => {
    const experimentKey = await service.client.createExperiment()
    expect(await service.client.readMetric(experimentKey, 'never')).toEqual([])
    expect(await service.client.readMetric(experimentKey, 'never', { maxPoints: '10' })).toEqual([])
  })

  it('a name with many underscores is found in any split of context and metric', async () => {
    const experimentKey = await service.client.createExperiment()
    const long = '_'.repeat(1_000)
    await logBatch(experimentKey, [
      aPoint({ metricName: long, context: long }),
      aPoint({ metricName: 'b_c', context: 'a' }),
      aPoint({ metricName: 'c', context: 'a_b' }),
      aPoint({ metricName: 'a_b_c' }),
    ])
    await service.client.readPoints(experimentKey, 'a_b_c', 3)

    expect(await service.client.readMetric(experimentKey, `${long}_${long}`)).toHaveLength(1)
    expect(await service.client.readMetric(experimentKey, long)).toHaveLength(1)
    expect(
      (await service.client.readMetric(experimentKey, 'a_b_c')).map((it) => [it.runContext, it.metricName]),
    ).toEqual([
      [null, 'a_b_c'],
      ['a', 'b_c'],
      ['a_b', 'c'],
    ])
  })

  it('reads resource usage under its sys. names', async () => {
    const experimentKey = await service.client.createExperiment()
    const at = { experimentKey, context: 'node 1', step: 3, timestamp: 5 }
    await service.client.post('/write/experiment/cpu-metrics', { ...at, cpuPercentUtilization: [1.5, 100] })
    await service.client.post('/write/experiment/ram-metrics', { ...at, totalRam: 2 ** 40, usedRam: 0 })
    await service.client.post('/write/experiment/load-metrics', { ...at, loadAverage: 0.25 })
    const gpus = [{ gpuId: 7, freeMemory: 1, usedMemory: 2, totalMemory: 3, gpuUtilization: 99 }]
    await service.client.post('/write/experiment/gpu-metrics', { ...at, gpus })

    const expected = {
      'sys.cpu.percent.00': '1.5',
      'sys.cpu.percent.01': '100.0',
      'sys.ram.total': '1.099511627776E12',
      'sys.ram.used': '0.0',
      'sys.load.average': '0.25',
      'sys.gpu.7.gpu_utilization': '99.0',
      'sys.gpu.7.free_memory': '1.0',
      'sys.gpu.7.used_memory': '2.0',
      'sys.gpu.7.total_memory': '3.0',
    }
    for (const [metricName, metricValue] of Object.entries(expected)) {
      expect(await service.client.readPoints(experimentKey, metricName, 1)).toEqual([
        { metricName, metricValue, timestamp: 5, step: 3, epoch: null, runContext: 'node 1' },
      ])
    }
  })

  it.each([
    ['metricName=', 'metricName: must not be empty'],
    ['', 'metricName: is missing'],
    ['metricName=a%00', 'metricName: must not hold NUL or half of a surrogate pair'],
    [`metricName=${'x'.repeat(2_002)}`, 'metricName: must have 2001 characters or fewer'],
    ['metricName=a&context=%00', 'context: must not hold NUL or half of a surrogate pair'],
    ['metricName=a&maxPoints=', 'maxPoints: must be 10 or more'],
    ['metricName=a&maxPoints=9', 'maxPoints: must be 10 or more'],
    ['metricName=a&maxPoints=100001', 'maxPoints: must be 100000 or fewer'],
    ['metricName=a&maxPoints=10.5', 'maxPoints: expected an integer'],
    ['metricName=a&maxPoints=many', 'maxPoints: expected an integer'],
  ])('refuses %s by name', async (query, message) => {
    const experimentKey = await service.client.createExperiment()
    const answer = await service.client.get(`/experiment/metrics/get-metric?experimentKey=${experimentKey}&${query}`)
    expectRefusal(answer, 400, codes.badRequest, message)
  })
})

describe('metrics/get-metric with maxPoints', () => {
  type Point = { value: string; step: bigint | null; timestamp: bigint; context: string | null }

  async function readExactly(experimentKey: string, maxPoints?: number): Promise<Point[]> {
    const more: Record<string, string> = maxPoints === undefined ? {} : { maxPoints: String(maxPoints) }
    const query = new URLSearchParams({ experimentKey, metricName: 'loss', ...more })
    const answer = await service.client.get(`/experiment/metrics/get-metric?${query}`)
    expect(answer.status).toBe(200)
    const { metrics } = parseExactJson(answer.text) as unknown as { metrics: Record<keyof ReadPoint, never>[] }
    return metrics.map((it) => ({
      value: it.metricValue,
      step: it.step === null ? null : BigInt(it.step),
      timestamp: BigInt(it.timestamp),
      context: it.runContext,
    }))
  }

  /** Logs points and reads all of them, then at most `maxPoints`; checks what holds for every series. */
  async function thin(points: Sent[], maxPoints: number): Promise<{ all: Point[]; thinned: Point[] }> {
    const experimentKey = await service.client.createExperiment()
    await logBatch(
      experimentKey,
      points.map((it) => ({ metricName: 'loss', metricValue: 0.5, ...it })),
    )
    await service.client.readPoints(experimentKey, 'loss', points.length)
    const [all, thinned] = [await readExactly(experimentKey), await readExactly(experimentKey, maxPoints)]

    expect(thinned.length).toBeLessThanOrEqual(maxPoints)
    if (all.length <= maxPoints) expect(thinned).toEqual(all)
    const logged = new Map<string, number>()
    for (const point of all) logged.set(textOf(point), (logged.get(textOf(point)) ?? 0) + 1)
    for (const point of thinned) {
      const left = logged.get(textOf(point)) ?? 0
      expect(left, `${textOf(point)} was not logged that often`).toBeGreaterThan(0)
      logged.set(textOf(point), left - 1)
    }
    const expected = extremesOf(all, maxPoints)
    for (const [bucket, values] of extremesOf(thinned, maxPoints, all)) expect(expected.get(bucket)).toEqual(values)
    if (contextsOf(all) * (all.some((it) => it.value === 'NaN') ? 3 : 2) <= maxPoints) {
      expect([...extremesOf(thinned, maxPoints, all).keys()].toSorted()).toEqual([...expected.keys()].toSorted())
    }
    return { all, thinned }
  }

  const textOf = (point: Point) => Object.values(point).join(' ')
  const contextsOf = (points: Point[]) => new Set(points.map((it) => it.context)).size

  /** The minimum and maximum of each bucket, and whether it has a NaN; buckets are those of `whole`. */
  function extremesOf(points: Point[], maxPoints: number, whole = points) {
    const steps = new Set(whole.map((it) => it.step ?? 0n))
    const axis = (it: Point) => (steps.size > 1 ? (it.step ?? 0n) : it.timestamp)
    const places = whole.map(axis)
    const [low, high] = [places.reduce(minBigInt), places.reduce(maxBigInt)]
    const kept = whole.some((it) => it.value === 'NaN') ? 3 : 2
    const buckets = BigInt(Math.max(1, Math.floor(maxPoints / (kept * contextsOf(whole)))))
    const width = (high - low) / buckets + 1n
    const grouped = Map.groupBy(
      points,
      (it) => `${it.context} ${whole.length <= maxPoints ? 0 : (axis(it) - low) / width}`,
    )
    return new Map(
      [...grouped].map(([bucket, some]) => {
        const numbers = some.map((it) => Number(it.value)).filter((it) => !Number.isNaN(it))
        const hasNan = numbers.length < some.length
        return [bucket, numbers.length > 0 ? [Math.min(...numbers), Math.max(...numbers), hasNan] : [hasNan]]
      }),
    )
  }

  const wave = (length: number, toPoint: (at: number) => Sent) =>
    Array.from({ length }, (_, at) => ({ metricValue: Math.sin(at * at) * at, ...toPoint(at) }))

  it.each([10, 11, 100, 1_000])(
    'keeps the extremes of each of its buckets in %i points or fewer',
    async (maxPoints) => {
      const { all, thinned } = await thin(
        wave(5_000, (step) => ({ step })),
        maxPoints,
      )
      expect(all).toHaveLength(5_000)
      expect(thinned.length).toBeGreaterThan(maxPoints / 2)
    },
  )

  it('a short series is returned whole', async () => {
    const { thinned } = await thin(
      wave(100, (step) => ({ step })),
      100,
    )
    expect(thinned).toHaveLength(100)
  })

  it('NaNs stay visible', async () => {
    const { thinned } = await thin(
      wave(1_000, (step) => ({ step, ...(step % 250 === 5 && { metricValue: 'NaN' }) })),
      60,
    )
    expect(thinned.filter((it) => it.value === 'NaN')).toHaveLength(4)
  })

  it('a series of NaNs keeps some of them', async () => {
    const { thinned } = await thin(
      wave(100, (step) => ({ step, metricValue: 'NaN' })),
      10,
    )
    expect(thinned.length).toBeGreaterThan(0)
  })

  it('points with equal steps are divided by time', async () => {
    const { thinned } = await thin(
      wave(1_000, (at) => ({ step: 7, timestamp: at * 1_000 })),
      50,
    )
    expect(thinned.length).toBeGreaterThan(25)
  })

  it('points without steps are divided by time', async () => {
    const { thinned } = await thin(
      wave(1_000, (at) => ({ timestamp: at * 1_000 })),
      50,
    )
    expect(thinned.length).toBeGreaterThan(25)
  })

  it('points with equal steps and times keep their extremes', async () => {
    const { thinned } = await thin(
      wave(1_000, () => ({ step: 7, timestamp: 7 })),
      10,
    )
    expect(thinned).toHaveLength(2)
  })

  it('steps may span all of int64', async () => {
    const far = (at: number) => String(-(2n ** 63n) + (BigInt(at) * (2n ** 64n - 1n)) / 999n)
    await thin(
      wave(1_000, (at) => ({ step: far(at) })),
      10,
    )
    await thin(
      wave(1_000, (at) => ({ step: far(at) })),
      500,
    )
  })

  it('each context has its own extremes, and one bucket may span all of int64', async () => {
    const ends = [String(-(2n ** 63n)), '0', String(2n ** 63n - 1n)]
    const points = wave(300, (at) => ({ step: ends[at % 3], context: `context ${at % 5}` }))

    const { thinned } = await thin(points, 10)
    const { thinned: more } = await thin(points, 29)

    expect(contextsOf(thinned)).toBe(5)
    expect(contextsOf(more)).toBe(5)
  })

  it('more contexts than points may be answered still keep the limit', async () => {
    await thin(
      wave(200, (at) => ({ step: at, context: `context ${at % 40}` })),
      10,
    )
  })

  it('keeps all of this for any series', async () => {
    const step = fc.oneof(
      fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }).map(String),
      fc.integer({ min: 0, max: 20 }).map(String),
      fc.constant(undefined),
    )
    const value = fc.oneof(
      { weight: 3, arbitrary: fc.double({ noNaN: true, noDefaultInfinity: true }) },
      fc.constantFrom('NaN', 'Infinity', '-Infinity', 1),
    )
    const point = fc.record({
      metricValue: value,
      step,
      timestamp: fc.integer({ min: 0, max: 1_000 }),
      context: fc.constantFrom('', 'a'),
    })
    await fc.assert(
      fc.asyncProperty(
        fc.array(point, { minLength: 1, maxLength: 80 }),
        fc.integer({ min: 10, max: 60 }),
        async (points, maxPoints) => {
          await thin(points as Sent[], maxPoints)
        },
      ),
      { numRuns: inForm({ short: 8, middle: 12, long: 100 }) },
    )
  })
})
