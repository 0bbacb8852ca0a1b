import { expect, it } from 'vitest'
import { nextAttemptMs, parseRetryAfter } from '../../../workers/webhooks/schedule.ts'

const hourMs = 3_600_000

/** When each attempt is made by a receiver that always fails, on a clock that only this moves. */
function playAttempts(random: () => number): number[] {
  const times = [0]
  for (;;) {
    const next = nextAttemptMs({ attempts: times.length, nowMs: times.at(-1) as number, random })
    if (next === undefined) return times
    times.push(next)
  }
}

it('ten attempts are made, over about 75 hours', () => {
  const times = playAttempts(() => 0.5)

  expect(times).toHaveLength(10)
  expect((times.at(-1) as number) / hourMs).toBeCloseTo(75.6, 1)
})

it('jitter keeps ten attempts in order, and shifts each by at most a tenth', () => {
  const middle = playAttempts(() => 0.5)
  for (let seed = 0; seed <= 100; seed++) {
    const times = playAttempts(() => seed / 100)
    expect(times).toHaveLength(10)
    times.forEach((time, at) => {
      expect(time).toBeGreaterThanOrEqual((middle[at] as number) * 0.9 - 10)
      expect(time).toBeLessThanOrEqual((middle[at] as number) * 1.1 + 10)
      if (at > 0) expect(time).toBeGreaterThan(times[at - 1] as number)
    })
  }
})

it('a receiver that asks for more time gets it, up to a day, and never less than the schedule gives', () => {
  const wait = (attempts: number, retryAfterMs: number) =>
    nextAttemptMs({ attempts, nowMs: 0, retryAfterMs, random: () => 0.5 })

  expect(wait(1, 60_000)).toBe(60_000)
  expect(wait(1, 1_000)).toBe(5_000)
  expect(wait(1, 1_000 * hourMs)).toBe(24 * hourMs)
  expect(wait(10, 60_000)).toBeUndefined()
})

it('Retry-After is read as seconds or as a date', () => {
  const nowMs = Date.UTC(2026, 0, 1)
  expect(parseRetryAfter('120', nowMs)).toBe(120_000)
  expect(parseRetryAfter('0', nowMs)).toBe(0)
  expect(parseRetryAfter('Thu, 01 Jan 2026 00:02:00 GMT', nowMs)).toBe(120_000)
  expect(parseRetryAfter('Wed, 31 Dec 2025 00:00:00 GMT', nowMs)).toBe(0)
  for (const text of [undefined, '', '-1', '1.5', 'soon', '99999999999', 'Thu, 99 Jan 2026 99:00:00 GMT']) {
    expect(parseRetryAfter(text, nowMs), text).toBeUndefined()
  }
})
