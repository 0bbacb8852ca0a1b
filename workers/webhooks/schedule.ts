const secondMs = 1_000
const minuteMs = 60 * secondMs
const hourMs = 60 * minuteMs

/** How long after the first, second, ... failed attempt the next one follows: ten attempts over 75 hours. */
const waitsMs = [
  5 * secondMs,
  5 * minuteMs,
  30 * minuteMs,
  2 * hourMs,
  5 * hourMs,
  10 * hourMs,
  14 * hourMs,
  20 * hourMs,
  24 * hourMs,
]

/** Spreads the repetitions of deliveries that failed at the same time. */
const jitter = 0.1

/** A receiver may ask for more time than the table gives, up to this. */
const retryAfterMsMax = 24 * hourMs

type Failed = {
  /** Attempts so far, this one included. */
  attempts: number
  nowMs: number
  /** From the receiver's `Retry-After`. */
  retryAfterMs?: number | undefined
  /** Like `Math.random`. */
  random: () => number
}

/** When to try again after a failed attempt, in ms since the Unix epoch; undefined after the last one. */
export function nextAttemptMs({ attempts, nowMs, retryAfterMs = 0, random }: Failed): number | undefined {
  const waitMs = waitsMs[attempts - 1]
  if (waitMs === undefined) return undefined
  const spread = Math.round(waitMs * (1 - jitter + 2 * jitter * random()))
  return nowMs + Math.max(spread, Math.min(retryAfterMs, retryAfterMsMax))
}

/** Reads `Retry-After`, which is seconds or a date; undefined when it is neither. */
export function parseRetryAfter(header: string | undefined, nowMs: number): number | undefined {
  if (header === undefined) return undefined
  if (/^\d{1,10}$/.test(header)) return Number(header) * secondMs
  const dateMs = /^[A-Z][a-z]{2}, \d{2} [A-Z][a-z]{2} \d{4} \d{2}:\d{2}:\d{2} GMT$/.test(header)
    ? Date.parse(header)
    : NaN
  return Number.isNaN(dateMs) ? undefined : Math.max(0, dateMs - nowMs)
}
