import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { toHttpError } from '../../http/errors.ts'
import type { DataType, GivenLimits } from '../../store/limits.ts'
import { openDatabase } from '../../store/postgres/database.ts'
import { createThrottle, type RateLimits, Throttled } from '../../throttle/throttle.ts'
import { createLocalBuckets } from '../../throttle/token-buckets.ts'
import { aPoint } from '../kit/builders.ts'
import { eventually } from '../kit/eventually.ts'
import { createClient } from '../kit/http/client.ts'
import { createUser, openTestService, storesWith } from '../kit/service.ts'

const sameForAll = (limit: number): RateLimits => ({
  metrics: limit,
  systemMetrics: limit,
  output: limit,
  parameters: limit,
  other: limit,
  events: limit,
})

/** A throttle with a clock that stands still until it is moved. */
function openThrottle({ perExperiment = 60, perKey = 6_000 } = {}) {
  let nowMs = 1_000
  const throttled: unknown[][] = []
  const holds: number[] = []
  const throttle = createThrottle({
    buckets: createLocalBuckets(() => nowMs),
    perExperiment: sameForAll(perExperiment),
    perKey: sameForAll(perKey),
    counters: { throttled: (...it) => throttled.push(it) },
    now: () => nowMs,
    random: () => 0.5,
  })
  type Who = { type?: DataType; experiment?: bigint; limits?: GivenLimits; key?: string; keyLimits?: GivenLimits }
  return {
    throttled,
    /** For how long each refusal is held back. */
    holds,
    /** `ok`, or the refusal's headers. */
    admit(points: number, { type = 'metrics', experiment = 1n, limits = {}, key = 'key', keyLimits = {} }: Who = {}) {
      try {
        const admitted = throttle.admit(type, { id: experiment, limits }, { keyId: key, limits: keyLimits }, points)
        expect(admitted).toBeUndefined()
        return 'ok'
      } catch (error) {
        if (!(error instanceof Throttled)) throw error
        holds.push(error.holdMs)
        const { kind, status, code, headers, holdMs } = toHttpError(error)
        expect([kind, status, code, headers, holdMs]).toEqual(['throttled', 429, 8000013, error.headers, error.holdMs])
        return error.headers
      }
    },
    giveBack(count: number) {
      throttle.giveBack({ type: 'metrics', experiment: { id: 1n, limits: {} }, keyId: 'key', count })
    },
    pass(seconds: number) {
      nowMs += seconds * 1_000
    },
  }
}

const refused = (seconds: number, remaining: number, limit = 60) => ({
  'retry-after': String(seconds),
  'ratelimit-limit': String(limit),
  'ratelimit-remaining': String(remaining),
  'ratelimit-reset': String(seconds),
})

describe('a throttle', () => {
  it('admits a burst of one minute at once, and rejects the next point', () => {
    const { admit } = openThrottle()
    for (let at = 0; at < 6; at++) expect(admit(10)).toBe('ok')
    expect(admit(1)).toEqual(refused(1, 0))
  })

  it('refills at the rate, and Retry-After is exact', () => {
    const { admit, pass } = openThrottle()
    admit(60)
    expect(admit(7)).toEqual(refused(7, 0))
    pass(6)
    expect(admit(7)).toEqual(refused(1, 6))
    pass(1)
    expect(admit(7)).toBe('ok')
    expect(admit(1)).toEqual(refused(1, 0))
  })

  it('never holds more than one minute of its rate', () => {
    const { admit, pass } = openThrottle()
    pass(86_400)
    expect(admit(60)).toBe('ok')
    expect(admit(1)).toEqual(refused(1, 0))
  })

  it('a rejected request takes no tokens', () => {
    const { admit } = openThrottle()
    expect(admit(50)).toBe('ok')
    for (let at = 0; at < 100; at++) expect(admit(11)).toEqual(refused(1, 10))
    expect(admit(10)).toBe('ok')
  })

  it('a request larger than the burst is admitted without debt, and its debt is paid off before the next', () => {
    const { admit, pass } = openThrottle()
    expect(admit(1)).toBe('ok')
    expect(admit(600)).toEqual(refused(1, 59))
    pass(1)
    expect(admit(600)).toBe('ok')
    expect(admit(1)).toEqual(refused(541, 0))
    pass(540)
    expect(admit(1)).toEqual(refused(1, 0))
    pass(1)
    expect(admit(1)).toBe('ok')
  })

  it('types, experiments and keys have separate buckets', () => {
    const { admit } = openThrottle()
    for (const type of ['metrics', 'systemMetrics', 'output', 'parameters', 'other'] as const) {
      for (const experiment of [1n, 2n]) expect(admit(60, { type, experiment })).toBe('ok')
    }
    expect(admit(1)).toEqual(refused(1, 0))
    expect(admit(1, { experiment: 3n })).toBe('ok')
  })

  it('the limit of a key covers all its experiments, and is separate from theirs', () => {
    const { admit, pass } = openThrottle({ perKey: 120 })
    expect(admit(60, { experiment: 1n })).toBe('ok')
    expect(admit(60, { experiment: 2n })).toBe('ok')
    expect(admit(60, { experiment: 3n })).toEqual(refused(30, 0, 120))
    expect(admit(60, { experiment: 3n, key: 'another' })).toBe('ok')
    expect(admit(60, { experiment: 4n, type: 'output' })).toBe('ok')
    pass(30)
    expect(admit(60, { experiment: 5n })).toBe('ok')
  })

  it('limits of the experiment or the key override the settings', () => {
    const { admit } = openThrottle()
    expect(admit(100, { limits: { metricsPerMinute: 100 } })).toBe('ok')
    expect(admit(1, { limits: { metricsPerMinute: 100 } })).toEqual(refused(1, 0, 100))
    expect(admit(61, { experiment: 2n, limits: { outputPerMinute: 100 } })).toBe('ok')
    expect(admit(1, { experiment: 2n, limits: { outputPerMinute: 100 } })).toEqual(refused(2, 0))
    const keyLimits = { metricsPerMinute: 10 }
    expect(admit(10, { experiment: 3n, key: 'slow', keyLimits })).toBe('ok')
    expect(admit(1, { experiment: 3n, key: 'slow', keyLimits })).toEqual(refused(6, 0, 10))
  })

  it('returned tokens can be taken again', () => {
    const { admit, giveBack } = openThrottle()
    expect(admit(60)).toBe('ok')
    giveBack(30)
    expect(admit(31)).toEqual(refused(1, 30))
    expect(admit(30)).toBe('ok')
  })

  it('counts rejected points by the limit that rejected them', () => {
    const { admit, throttled } = openThrottle({ perKey: 100 })
    admit(60)
    admit(7)
    admit(60, { experiment: 2n, type: 'metrics' })
    expect(throttled).toEqual([
      ['metrics', 1n, 7, 'metric points: over 60 a minute for this experiment'],
      ['metrics', 2n, 60, 'metric points: over 100 a minute for this API key'],
    ])
  })

  it('delays the answer to a client that retries before Retry-After', () => {
    const { admit, pass, holds } = openThrottle()
    admit(60)
    admit(10)
    pass(9)
    admit(10)
    pass(1)
    expect(admit(10)).toBe('ok')
    admit(10)
    admit(10, { experiment: 2n })
    expect(holds).toEqual([0, 750, 0])
  })

  it('admits at most the rate plus one burst in any hour', () => {
    const { admit, pass } = openThrottle()
    let admitted = 0
    for (let second = 0; second < 3_600; second++) {
      for (const points of [1, 3, 7]) if (admit(points) === 'ok') admitted += points
      pass(1)
    }
    expect(admitted).toBeGreaterThanOrEqual(3_600)
    expect(admitted).toBeLessThanOrEqual(3_600 + 60)
  })
})

describe('over HTTP', () => {
  const limit = 100
  let service: Awaited<ReturnType<typeof openTestService>>
  beforeAll(async () => {
    const settings = {
      SVC_POINTS_PER_MINUTE: String(limit),
      SVC_KEY_POINTS_PER_MINUTE: String(limit * 4),
      SVC_VALUES_PER_MINUTE: '5',
    }
    service = await openTestService({ settings })
  })
  afterAll(() => service?.close())

  const points = (count: number, metricName: string) =>
    Array.from({ length: count }, (_, step) => aPoint({ metricName, step }))

  it('a request over the limit answers 429 with its headers, and is not stored', async () => {
    const user = await createUser(storesWith('postgres'))
    const client = createClient(service.url, user)
    const experimentKey = await client.createExperiment()
    const send = (metricName: string, count: number) =>
      client.post('/write/experiment/metrics/batch', { experimentKey, metrics: points(count, metricName) })

    expect((await send('kept', limit - 5)).body).toMatchObject({ accepted: limit - 5 })
    const answer = await send('refused', limit)

    expect(answer.status).toBe(429)
    const seconds = Number(answer.headers.get('retry-after'))
    expect(seconds).toBeGreaterThan(0)
    expect(seconds).toBeLessThanOrEqual(60)
    expect(answer.headers.get('content-type')).toBe('application/json')
    expect(answer.headers.get('ratelimit-limit')).toBe(String(limit))
    expect(Number(answer.headers.get('ratelimit-remaining'))).toBeLessThan(limit)
    expect(answer.headers.get('ratelimit-reset')).toBe(String(seconds))
    expect(answer.body).toEqual({
      msg:
        `Too much was sent for this experiment: the limit is ${limit} metric points a minute. Nothing of this request was kept: ` +
        `send it again in ${seconds} s.`,
      code: 429,
      data: null,
      sdk_error_code: 8000013,
    })

    // Other types and other experiments are not held up by it, and what is accepted after it is stored after it.
    const outputLines = [{ output: 'not held up' }]
    expect((await client.post('/write/experiment/output', { experimentKey, outputLines })).status).toBe(200)
    expect((await client.post('/write/experiment/load-metrics', { experimentKey, loadAverage: 1 })).status).toBe(200)
    const another = await client.createExperiment()
    expect((await client.post('/write/experiment/metric', { experimentKey: another, ...aPoint() })).status).toBe(200)
    await client.readPoints(another, 'loss', 1)
    await client.readPoints(experimentKey, 'sys.load.average', 1)
    expect(await client.readPoints(experimentKey, 'kept', limit - 5)).toHaveLength(limit - 5)
    expect(await client.readMetric(experimentKey, 'refused')).toEqual([])

    await eventually(async () => {
      expect((await client.get(`/experiment/metadata?experimentKey=${experimentKey}`)).body).toMatchObject({
        throttle: true,
        throttleMessage: expect.stringContaining('over 100 a minute for this experiment'),
        throttleReasons: ['metric points: over 100 a minute for this experiment'],
      })
    })
    // It clears by itself a minute after: the minute is made to have passed.
    const database = openDatabase({ url: storesWith('postgres').postgresUrl, onError: () => undefined })
    const minuteAgo = 'UPDATE experiment_throttles SET last_at_ms = last_at_ms - 60000'
    await database.row(`${minuteAgo} WHERE experiment_id = (SELECT id FROM experiments WHERE key = $1)`, [
      experimentKey,
    ])
    await database.close()
    const cleared = (await client.get(`/experiment/metadata?experimentKey=${experimentKey}`)).body
    expect(cleared).toMatchObject({ throttle: false })
    expect(Object.keys(cleared)).not.toContain('throttleReasons')

    const quiet = (await client.get(`/experiment/metadata?experimentKey=${another}`)).body
    expect(quiet).toMatchObject({ throttle: false })
    expect(Object.keys(quiet)).not.toContain('throttleMessage')
  })

  it('a client that ignores Retry-After waits for its answers, and others do not', async () => {
    const user = await createUser(storesWith('postgres'))
    const client = createClient(service.url, user)
    const [runaway, quiet] = [await client.createExperiment(), await client.createExperiment()]
    const send = (experimentKey: string, count: number) =>
      client.post('/write/experiment/metrics/batch', { experimentKey, metrics: points(count, 'loss') })
    expect((await send(runaway, limit)).status).toBe(200)
    expect((await send(runaway, limit)).status).toBe(429)

    const order: string[] = []
    const note = (who: string) => (answer: { status: number }) => order.push(`${who} ${answer.status}`)
    await Promise.all([
      send(runaway, limit).then(note('runaway')),
      send(quiet, 1).then(note('quiet')),
      send(quiet, 1).then(note('quiet')),
    ])
    expect(order).toEqual(['quiet 200', 'quiet 200', 'runaway 429'])
  })

  it('parameters have their own limit, and one that fails is not charged', async () => {
    const user = await createUser(storesWith('postgres'))
    const client = createClient(service.url, user)
    const experimentKey = await client.createExperiment()
    const send = (parameterName: string, parameterValue: unknown) =>
      client.post('/write/experiment/parameter', { experimentKey, parameterName, parameterValue })

    for (let at = 0; at < 5; at++) expect((await send('', 1)).status).toBe(400)
    for (let at = 0; at < 5; at++) expect((await send(`parameter ${at}`, at)).status).toBe(200)
    const answer = await send('one more', 1)
    expect(answer.status).toBe(429)
    expect(answer.body.msg).toMatch(/^Too much was sent for this experiment: the limit is 5 parameters a minute\./)
    expect((await client.post('/write/experiment/log-other', { experimentKey, key: 'a', value: 1 })).status).toBe(200)
    const { body } = await client.get(`/experiment/parameters?experimentKey=${experimentKey}`)
    expect((body.values as { name: string }[]).map((it) => it.name)).toEqual(
      [0, 1, 2, 3, 4].map((it) => `parameter ${it}`),
    )
  })

  it('a key over its limit across many experiments is told that the key is the reason', async () => {
    const user = await createUser(storesWith('postgres'))
    const client = createClient(service.url, user)
    const answers = []
    for (let at = 0; at < 5; at++) {
      const experimentKey = await client.createExperiment()
      const body = { experimentKey, metrics: points(limit, 'loss') }
      answers.push(await client.post('/write/experiment/metrics/batch', body))
    }

    expect(answers.map((it) => it.status)).toEqual([200, 200, 200, 200, 429])
    expect(answers[4]?.body.msg).toMatch(
      /^Too much was sent for this API key: the limit is 400 metric points a minute\./,
    )
    expect(answers[4]?.headers.get('ratelimit-limit')).toBe('400')
  })
})
