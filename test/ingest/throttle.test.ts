import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { Refusal } from '../../http/errors.ts'
import { createThrottle, type DataType, type Limits } from '../../ingest/throttle.ts'
import { aPoint } from '../harness/builders.ts'
import { createClient } from '../harness/client.ts'
import { createUser, openTestService, storesWith } from '../harness/service.ts'

/** A throttle with a clock that stands still until it is moved. */
function openThrottle(limits: Partial<Limits> = {}) {
  let nowMs = 1_000
  const throttle = createThrottle({ perExperimentAMinute: 60, perKeyAMinute: 6_000, ...limits }, () => nowMs)
  return {
    /** `ok`, or the refusal's headers. */
    admit(points: number, { type = 'metrics' as DataType, experiment = 1n, key = 'key' } = {}) {
      try {
        throttle.admit(type, experiment, key, points)
        return 'ok'
      } catch (error) {
        if (!(error instanceof Refusal)) throw error
        expect([error.refusal, error.status, error.code]).toEqual(['throttled', 429, 8000013])
        return error.headers
      }
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
  it('lets a burst of a minute in at once, and refuses the next point', () => {
    const { admit } = openThrottle()
    for (let at = 0; at < 6; at++) expect(admit(10)).toBe('ok')
    expect(admit(1)).toEqual(refused(1, 0))
  })

  it('fills at the rate, and Retry-After is exactly when it will admit', () => {
    const { admit, pass } = openThrottle()
    admit(60)
    expect(admit(7)).toEqual(refused(7, 0))
    pass(6)
    expect(admit(7)).toEqual(refused(1, 6))
    pass(1)
    expect(admit(7)).toBe('ok')
    expect(admit(1)).toEqual(refused(1, 0))
  })

  it('never holds more than a minute of rest gives', () => {
    const { admit, pass } = openThrottle()
    pass(86_400)
    expect(admit(60)).toBe('ok')
    expect(admit(1)).toEqual(refused(1, 0))
  })

  it('what is refused takes nothing', () => {
    const { admit } = openThrottle()
    expect(admit(50)).toBe('ok')
    for (let at = 0; at < 100; at++) expect(admit(11)).toEqual(refused(1, 10))
    expect(admit(10)).toBe('ok')
  })

  it('a request larger than the burst is let in when nothing is owed, and its debt is paid off before the next', () => {
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

  it('types, experiments and keys have each their own', () => {
    const { admit } = openThrottle()
    for (const type of ['metrics', 'systemMetrics', 'output'] as const) {
      for (const experiment of [1n, 2n]) expect(admit(60, { type, experiment })).toBe('ok')
    }
    expect(admit(1)).toEqual(refused(1, 0))
    expect(admit(1, { experiment: 3n })).toBe('ok')
  })

  it('a key has a limit over all its experiments, which takes nothing from theirs', () => {
    const { admit, pass } = openThrottle({ perKeyAMinute: 120 })
    expect(admit(60, { experiment: 1n })).toBe('ok')
    expect(admit(60, { experiment: 2n })).toBe('ok')
    expect(admit(60, { experiment: 3n })).toEqual(refused(30, 0, 120))
    expect(admit(60, { experiment: 3n, key: 'another' })).toBe('ok')
    expect(admit(60, { experiment: 4n, type: 'output' })).toBe('ok')
    pass(30)
    expect(admit(60, { experiment: 5n })).toBe('ok')
  })

  it('over any hour admits no more than the rate and one burst', () => {
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
    const settings = { SVC_POINTS_PER_MINUTE: String(limit), SVC_KEY_POINTS_PER_MINUTE: String(limit * 4) }
    service = await openTestService({ settings })
  })
  afterAll(() => service?.close())

  const points = (count: number, metricName: string) =>
    Array.from({ length: count }, (_, step) => aPoint({ metricName, step }))

  it('what is over the limit answers 429 with its headers, and nothing of it is stored', async () => {
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
        `Too much was sent for this experiment: the limit is ${limit} points a minute. Nothing of this request was kept: ` +
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
  })

  it('a key that sends too much over many experiments is told that it is the key', async () => {
    const user = await createUser(storesWith('postgres'))
    const client = createClient(service.url, user)
    const answers = []
    for (let at = 0; at < 5; at++) {
      const experimentKey = await client.createExperiment()
      const body = { experimentKey, metrics: points(limit, 'loss') }
      answers.push(await client.post('/write/experiment/metrics/batch', body))
    }

    expect(answers.map((it) => it.status)).toEqual([200, 200, 200, 200, 429])
    expect(answers[4]?.body.msg).toMatch(/^Too much was sent for this API key: the limit is 400 points a minute\./)
    expect(answers[4]?.headers.get('ratelimit-limit')).toBe('400')
  })
})
