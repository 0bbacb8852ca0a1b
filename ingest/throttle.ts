import { LRUCache } from 'lru-cache'
import { Refusal } from '../http/errors.ts'

/** What is counted: one type never uses up another's tokens. */
export type DataType = 'metrics' | 'systemMetrics' | 'output'

export type Limits = {
  /** Points a minute for one experiment; its burst is a minute's worth. */
  perExperimentAMinute: number
  /** Points a minute for one API key. */
  perKeyAMinute: number
}

type Bucket = { tokens: number; filledAt: number }

const bucketsMax = 200_000

/**
 * Token buckets for every experiment and key, per data type. They live in this process: with several ingest processes
 * behind one address, each admits the whole rate.
 */
export function createThrottle(limits: Limits, now: () => number = () => performance.now()) {
  // A bucket that is forgotten because others are busier comes back full: it errs towards accepting.
  const buckets = new LRUCache<string, Bucket>({ max: bucketsMax })

  function fill(id: string, ratePerMinute: number): Bucket {
    const at = now()
    let bucket = buckets.get(id)
    if (!bucket) {
      bucket = { tokens: ratePerMinute, filledAt: at }
      buckets.set(id, bucket)
    }
    bucket.tokens = Math.min(ratePerMinute, bucket.tokens + ((at - bucket.filledAt) * ratePerMinute) / 60_000)
    bucket.filledAt = at
    return bucket
  }

  return {
    /**
     * Takes tokens for all points of a request, or for none. A request larger than the burst is let in when the bucket is
     * full, and its debt is paid off before the next one: else it could never be sent.
     *
     * @throws Refusal `throttled`, with the headers that tell when to come back
     */
    admit(type: DataType, experimentId: bigint, keyId: string, points: number) {
      const experiment = fill(`${type} ${experimentId}`, limits.perExperimentAMinute)
      const key = fill(`${type} ${keyId}`, limits.perKeyAMinute)
      refuseWhenEmpty(experiment, points, limits.perExperimentAMinute, 'this experiment')
      refuseWhenEmpty(key, points, limits.perKeyAMinute, 'this API key')
      experiment.tokens -= points
      key.tokens -= points
    },
  }
}

function refuseWhenEmpty(bucket: Bucket, points: number, ratePerMinute: number, whose: string) {
  const missing = Math.min(points, ratePerMinute) - bucket.tokens
  if (missing <= 0) return
  const seconds = Math.max(1, Math.ceil((missing * 60) / ratePerMinute))
  throw new Refusal(
    'throttled',
    `Too much was sent for ${whose}: the limit is ${ratePerMinute} points a minute. Nothing of this request was kept: ` +
      `send it again in ${seconds} s.`,
    {
      headers: {
        'retry-after': String(seconds),
        'ratelimit-limit': String(ratePerMinute),
        'ratelimit-remaining': String(Math.max(0, Math.floor(bucket.tokens))),
        'ratelimit-reset': String(seconds),
      },
    },
  )
}

export type Throttle = ReturnType<typeof createThrottle>
