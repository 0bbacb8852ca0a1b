import { setTimeout as sleep } from 'node:timers/promises'
import { createLruCache } from '../runtime/lru-cache.ts'
import { mapMaybeAsync } from '../runtime/map-maybe-async.ts'
import { type DataType, type GivenLimits, rateLimitNames } from '../store/limits.ts'
import type { Counters } from './counters.ts'
import type { Shortage, TokenBuckets } from './token-buckets.ts'

/** Points (lines, values, calls) a minute. */
export type RateLimits = Record<DataType, number>

type Settings = {
  buckets: TokenBuckets
  /** What holds where nothing else was set. */
  perExperiment: RateLimits
  perKey: RateLimits
  counters: Pick<Counters, 'throttled'>
  now: () => number
}

/**
 * Who is charged: an experiment, with the limits set for its project and workspace; for events a monitored model, with
 * those of its workspace.
 */
export type ChargedExperiment = { id: bigint; limits: GivenLimits }
/** And the key it is written with. */
export type ChargedKey = { keyId: string; limits: GivenLimits }

/** What was taken for a request; it is put back when the request is refused for another reason. */
type RateLimitedWrite = { type: DataType; experimentId: bigint; keyId: string; count: number }

/** Enough to make a few requests a second out of a client that never waits, and no more than a proxy bears. */
const holdMs = 500
const refusedMax = 50_000
/** Others may take what was waited for, or give something back. */
const waitMsMax = 1_000

/**
 * Limits by rate: every data type of every experiment and of every key has a bucket of its own, so a runaway takes
 * nothing from its neighbours.
 *
 * Nor may its refused requests take the time of this process, for each has to be read before it can be refused: who comes
 * back before the time it was told has to wait for the next answer.
 */
export function createThrottle({ buckets, perExperiment, perKey, counters, now }: Settings) {
  /** Until when the callers of a bucket were told to wait. */
  const toldToWait = createLruCache<number>(refusedMax)

  function isEarly(bucket: string, retryAfterMs: number): boolean {
    const toldUntil = toldToWait.get(bucket) ?? Number.NEGATIVE_INFINITY
    toldToWait.set(bucket, Math.max(toldUntil, now() + retryAfterMs))
    return now() < toldUntil
  }

  /**
   * Takes tokens for all points of a request, or for none. Mostly answers at once.
   *
   * @throws HttpError `throttled`, with the headers that tell when to come back
   */
  function admit(
    type: DataType,
    experiment: ChargedExperiment,
    key: ChargedKey,
    count: number,
  ): undefined | Promise<undefined> {
    const ofExperiment: Bound = {
      bucket: toExperimentBucket(type, experiment.id),
      limit: experiment.limits[rateLimitNames[type]] ?? perExperiment[type],
      whose: type === 'events' ? 'this model' : 'this experiment',
    }
    const ofKey: Bound = {
      bucket: toKeyBucket(type, key.keyId),
      limit: key.limits[rateLimitNames[type]] ?? perKey[type],
      whose: 'this API key',
    }
    const refuse = (shortage: Shortage, bound: Bound): never => {
      counters.throttled(type, experiment.id, count, `${labels[type]}: over ${bound.limit} a minute for ${bound.whose}`)
      const held = isEarly(bound.bucket, shortage.retryAfterMs) ? holdMs : 0
      throw toThrottled(shortage, bound, labels[type], held)
    }
    const finish = (shortage: Shortage | undefined): undefined => {
      if (!shortage) return undefined
      buckets.giveBack(ofExperiment.bucket, count)
      refuse(shortage, ofKey)
    }
    const admitKey = (shortage: Shortage | undefined): undefined | Promise<undefined> => {
      if (shortage) refuse(shortage, ofExperiment)
      return mapMaybeAsync(buckets.take(ofKey.bucket, ofKey.limit, count), finish)
    }
    return mapMaybeAsync(buckets.take(ofExperiment.bucket, ofExperiment.limit, count), admitKey)
  }

  /** Takes tokens of one bucket, when it has them. */
  async function takeWhenThere(bucket: string, limit: number, count: number, signal: AbortSignal): Promise<void> {
    for (;;) {
      const shortage = await buckets.take(bucket, limit, count)
      if (!shortage) return
      await sleep(Math.min(shortage.retryAfterMs, waitMsMax), undefined, { signal })
    }
  }

  return {
    admit,

    /** Resolves when the tokens were taken, however long that takes: for who can be slowed down instead of refused. */
    async wait(type: DataType, experiment: ChargedExperiment, key: ChargedKey, count: number, signal: AbortSignal) {
      const limit = experiment.limits[rateLimitNames[type]] ?? perExperiment[type]
      await takeWhenThere(toExperimentBucket(type, experiment.id), limit, count, signal)
      await takeWhenThere(toKeyBucket(type, key.keyId), key.limits[rateLimitNames[type]] ?? perKey[type], count, signal)
    },

    /** Takes back what a request was charged that could not be kept. */
    giveBack({ type, experimentId, keyId, count }: RateLimitedWrite) {
      buckets.giveBack(toExperimentBucket(type, experimentId), count)
      buckets.giveBack(toKeyBucket(type, keyId), count)
    },
  }
}

export type Throttle = ReturnType<typeof createThrottle>

/** One of the limits that a request has to keep. */
type Bound = { bucket: string; limit: number; whose: string }

/** How a data type is called in messages. */
const labels: Record<DataType, string> = {
  metrics: 'metric points',
  systemMetrics: 'points of resource usage',
  output: 'lines of output',
  parameters: 'parameters',
  other: 'other calls',
  events: 'events',
}

const toExperimentBucket = (type: DataType, experimentId: bigint) => `${type} ${experimentId}`
const toKeyBucket = (type: DataType, keyId: string) => `${type} ${keyId}`

/** A write over a limit. The message is for the caller; nothing of the write was stored. */
export class Throttled extends Error {
  /** `Retry-After` and the `RateLimit` headers. */
  readonly headers: Record<string, string>
  /** How long to delay the answer: it slows down a caller that retries at once. */
  readonly holdMs: number

  constructor(message: string, { headers, holdMs }: Pick<Throttled, 'headers' | 'holdMs'>) {
    super(message)
    this.headers = headers
    this.holdMs = holdMs
  }
}

function toThrottled({ remaining, retryAfterMs }: Shortage, { limit, whose }: Bound, what: string, holdMs: number) {
  const seconds = String(Math.max(1, Math.ceil(retryAfterMs / 1000)))
  return new Throttled(
    `Too much was sent for ${whose}: the limit is ${limit} ${what} a minute. Nothing of this request was kept: ` +
      `send it again in ${seconds} s.`,
    {
      headers: {
        'retry-after': seconds,
        'ratelimit-limit': String(limit),
        'ratelimit-remaining': String(Math.max(0, Math.floor(remaining))),
        'ratelimit-reset': seconds,
      },
      holdMs,
    },
  )
}
