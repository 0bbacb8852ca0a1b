import { setTimeout as sleep } from 'node:timers/promises'
import { mapMaybeAsync } from '../runtime/map-maybe-async.ts'
import { type DataType, type GivenLimits, isPoints, rateLimitNames, type TenantLimits } from '../store/limits.ts'
import type { Counters } from './counters.ts'
import { createHolds } from './holds.ts'
import { createPaces } from './paces.ts'
import type { Shortage, TokenBuckets } from './token-buckets.ts'

/** Points (lines, values, calls) a minute. */
export type RateLimits = Record<DataType, number>

type Settings = {
  buckets: TokenBuckets
  /** The defaults. */
  perExperiment: RateLimits
  perKey: RateLimits
  /** For all of a workspace, and of an organization, together; nothing is charged to them without a limit. */
  perTenant?: TenantLimits
  onTenantThrottled?(): void
  counters: Pick<Counters, 'throttled'>
  now: () => number
  /** From 0 to 1. */
  random?: () => number
}

/**
 * The experiment that is charged, with the limits set for its project and workspace; for events the monitored model, with the
 * limits of its workspace. With it, its workspace and its organization.
 */
export type ChargedExperiment = {
  id: bigint
  limits: GivenLimits
  workspaceId?: string
  organizationId?: string
  organizationLimits?: GivenLimits
}
/** The key that is charged. */
export type ChargedKey = { keyId: string; limits: GivenLimits }

/** The tokens taken for a request; they are given back if the request fails for another reason. */
type RateLimitedWrite = { type: DataType; experiment: ChargedExperiment; keyId: string; count: number }

/** Buckets are checked again this often: other requests take tokens or give them back. */
const waitMsMax = 1_000

/**
 * Limits by rate. Every data type of every experiment and of every key has its own bucket, so a runaway client does not slow
 * others down. A workspace and an organization may have one for all of their points.
 *
 * A request must be read before it can be rejected, which takes CPU time. So a client that retries before its `Retry-After`
 * gets a delayed answer.
 */
export function createThrottle({
  buckets,
  perExperiment,
  perKey,
  perTenant,
  onTenantThrottled,
  counters,
  now,
  random,
}: Settings) {
  const toHoldMs = createHolds(now, random)
  const toWaitMs = createPaces(now)

  /** The limits of the workspace and of the organization, if there are any. */
  function toTenantBounds(type: DataType, experiment: ChargedExperiment): Bound[] {
    const ofWorkspace = experiment.limits.pointsPerMinute ?? perTenant?.workspace.pointsPerMinute
    const ofOrganization = experiment.organizationLimits?.pointsPerMinute ?? perTenant?.organization.pointsPerMinute
    if ((ofWorkspace === undefined && ofOrganization === undefined) || !isPoints(type)) return none
    const bounds: Bound[] = []
    const { workspaceId, organizationId } = experiment
    if (ofWorkspace !== undefined && workspaceId !== undefined) {
      bounds.push({ bucket: `points ${workspaceId}`, limit: ofWorkspace, whose: 'this workspace' })
    }
    if (ofOrganization !== undefined && organizationId !== undefined) {
      bounds.push({ bucket: `points ${organizationId}`, limit: ofOrganization, whose: 'this organization' })
    }
    return bounds
  }

  function waitForPace(bounds: Bound[], count: number, signal?: AbortSignal): undefined | Promise<undefined> {
    let waitMs = 0
    for (const { bucket, limit } of bounds) waitMs = Math.max(waitMs, toWaitMs(bucket, limit, count))
    return waitMs > 0 ? sleep(waitMs, undefined, { signal }) : undefined
  }

  /**
   * Takes tokens for all points of a request, or for none. Usually synchronous; the requests of a tenant that has a limit wait
   * for up to a second when they come much faster than it (`paces.ts`).
   *
   * @throws Throttled with `Retry-After`
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
    const ofTenant = toTenantBounds(type, experiment)
    const reject = (shortage: Shortage, bound: Bound): never => {
      if (ofTenant.includes(bound)) onTenantThrottled?.()
      counters.throttled(type, experiment.id, count, `${labels[type]}: over ${bound.limit} a minute for ${bound.whose}`)
      const held = toHoldMs(bound.bucket, shortage.retryAfterMs)
      throw toThrottled(shortage, bound, labels[type], held)
    }
    /** Admits to what remains; what was taken before a shortage is given back. */
    const admitTenant = (at: number): undefined | Promise<undefined> => {
      const bound = ofTenant[at]
      if (!bound) return undefined
      return mapMaybeAsync(buckets.take(bound.bucket, bound.limit, count), (shortage) => {
        if (!shortage) return admitTenant(at + 1)
        for (const taken of [ofExperiment, ofKey, ...ofTenant.slice(0, at)]) buckets.giveBack(taken.bucket, count)
        return reject(shortage, bound)
      })
    }
    const admitTenants = () => mapMaybeAsync(admitTenant(0), () => waitForPace(ofTenant, count))
    const finish = (shortage: Shortage | undefined): undefined | Promise<undefined> => {
      if (!shortage) return ofTenant.length === 0 ? undefined : admitTenants()
      buckets.giveBack(ofExperiment.bucket, count)
      reject(shortage, ofKey)
    }
    const admitKey = (shortage: Shortage | undefined): undefined | Promise<undefined> => {
      if (shortage) reject(shortage, ofExperiment)
      return mapMaybeAsync(buckets.take(ofKey.bucket, ofKey.limit, count), finish)
    }
    return mapMaybeAsync(buckets.take(ofExperiment.bucket, ofExperiment.limit, count), admitKey)
  }

  /** Waits until a bucket has the tokens, and takes them. */
  async function takeWhenFilled(bucket: string, limit: number, count: number, signal: AbortSignal): Promise<void> {
    for (;;) {
      const shortage = await buckets.take(bucket, limit, count)
      if (!shortage) return
      await sleep(Math.min(shortage.retryAfterMs, waitMsMax), undefined, { signal })
    }
  }

  return {
    admit,

    /**
     * Takes one token for a call that changes something which is of no experiment or model. A key has as many a minute as an
     * experiment has of other calls. The answer gives it back.
     *
     * @throws Throttled with `Retry-After`
     */
    async call({ keyId, limits }: ChargedKey): Promise<() => void> {
      const bucket = `call ${keyId}`
      const limit = limits[rateLimitNames.other] ?? perExperiment.other
      const shortage = await buckets.take(bucket, limit, 1)
      if (shortage) {
        const held = toHoldMs(bucket, shortage.retryAfterMs)
        throw toThrottled(shortage, { bucket, limit, whose: 'this API key' }, 'calls that change something', held)
      }
      return () => buckets.giveBack(bucket, 1)
    },

    /** Waits as long as it takes for the tokens, and takes them: for callers that can be slowed down instead of rejected. */
    async wait(type: DataType, experiment: ChargedExperiment, key: ChargedKey, count: number, signal: AbortSignal) {
      const limit = experiment.limits[rateLimitNames[type]] ?? perExperiment[type]
      await takeWhenFilled(toExperimentBucket(type, experiment.id), limit, count, signal)
      await takeWhenFilled(
        toKeyBucket(type, key.keyId),
        key.limits[rateLimitNames[type]] ?? perKey[type],
        count,
        signal,
      )
      const ofTenant = toTenantBounds(type, experiment)
      for (const { bucket, limit } of ofTenant) await takeWhenFilled(bucket, limit, count, signal)
      await waitForPace(ofTenant, count, signal)
    },

    /** Gives back the tokens of a request that was not stored. */
    giveBack({ type, experiment, keyId, count }: RateLimitedWrite) {
      buckets.giveBack(toExperimentBucket(type, experiment.id), count)
      buckets.giveBack(toKeyBucket(type, keyId), count)
      for (const { bucket } of toTenantBounds(type, experiment)) buckets.giveBack(bucket, count)
    },
  }
}

export type Throttle = ReturnType<typeof createThrottle>

/** A limit that applies to a request. */
type Bound = { bucket: string; limit: number; whose: string }

const none: Bound[] = []

/** The names of data types in messages. */
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
