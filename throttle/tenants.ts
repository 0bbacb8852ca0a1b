import { AsyncLocalStorage } from 'node:async_hooks'
import { createReadThroughCache } from '../runtime/read-through-cache.ts'
import type { GivenLimits, TenantLimitName, TenantLimits } from '../store/limits.ts'
import { Throttled } from './throttle.ts'

/**
 * Limits on what a tenant may do at once, so that a greedy one slows nobody else: a workspace, and an organization with all of
 * its workspaces. Each process of the api counts for itself.
 *
 * A request belongs to the organization of its caller, and to the first workspace in which it looks something up (`note`).
 * Until then, and for reads of many workspaces at once, its user stands for the workspace.
 *
 * Queries wait for their turn in the lane of their workspace, in order; all others have limits that reject. Of the queries that
 * run, the first of a lane goes before the second ones of all lanes, and so on: ClickHouse pauses those of a lower priority. A
 * lane that has been busy has no first ones.
 */
export type Tenant = {
  organizationId: string | null
  userId: string | null
  workspaceName?: string
  /** Aborted when the client leaves: its queries leave their lanes, and those that run are cancelled. */
  signal?: AbortSignal
}

export type AtOnce = Extract<TenantLimitName, 'streamsMax' | 'exportsMax' | 'queriesMax'>

type Place = { organizationId: string; workspaceName: string | null }

/** The limits that admins set; undefined for a place that is not there. */
export type FoundTenantLimits = { workspace: GivenLimits; organization: GivenLimits }

type Settings = {
  find(place: Place): Promise<FoundTenantLimits | undefined>
  defaults: TenantLimits
  /** How long a query may wait for its turn. */
  queryWaitMsMax?: number
  onRefused(limit: AtOnce): void
  onError(error: unknown): void
}

const freshForMs = 10_000
const placesMax = 10_000
/** More would take memory, and wait for longer than a client does. */
const waitingMax = 200
const queryWaitMsMaxDefault = 30_000
const retryAfterSeconds = 2
/** Exports have a lower one still. */
const priorityMax = 8
const noLimits: FoundTenantLimits = { workspace: {}, organization: {} }

const nouns: Record<AtOnce, string> = { streamsMax: 'streams open', exportsMax: 'exports', queriesMax: 'queries' }

/**
 * Those that wait are told how many run with them when it is their turn. `load` is how many ran at once lately: an average whose
 * weights fall with age.
 */
type Lane = { running: number; waiting: Set<(running: number) => void>; load: number; changedAtMs: number }

const loadForMs = 2_000
/** A lane with more goes behind those of tenants that have one query at a time. */
const loadMax = 1.5

export function createTenants(settings: Settings) {
  const { find, defaults, queryWaitMsMax = queryWaitMsMaxDefault, onRefused, onError } = settings
  const current = new AsyncLocalStorage<Tenant>()
  const held = new Map<string, number>()
  const lanes = new Map<string, Lane>()
  const inAll: Record<AtOnce, number> = { streamsMax: 0, exportsMax: 0, queriesMax: 0 }
  const limitsOf = createReadThroughCache<FoundTenantLimits, Place>({
    find: (_id, place) => find(place),
    freshForMs: { found: freshForMs, absent: freshForMs },
    entriesMax: placesMax,
  })

  /** While Postgres is down the defaults hold. */
  async function findLimits({ organizationId, workspaceName }: Tenant): Promise<FoundTenantLimits> {
    if (organizationId === null) return noLimits
    const place = { organizationId, workspaceName: workspaceName ?? null }
    try {
      return (await limitsOf(`${organizationId} ${workspaceName ?? ''}`, place)) ?? noLimits
    } catch (error) {
      onError(error)
      return noLimits
    }
  }

  async function toBounds(tenant: Tenant, limit: AtOnce): Promise<Bound[]> {
    const given = await findLimits(tenant)
    const ofWorkspace = given.workspace[limit] ?? defaults.workspace[limit]
    const ofOrganization = given.organization[limit] ?? defaults.organization[limit]
    return [
      ...(ofWorkspace === undefined ? [] : [{ id: toPlaceId(tenant), max: ofWorkspace, whose: toWhose(tenant) }]),
      ...(ofOrganization === undefined || tenant.organizationId === null
        ? []
        : [{ id: tenant.organizationId, max: ofOrganization, whose: 'This organization' }]),
    ]
  }

  function toRefusal(limit: AtOnce, { max, whose }: Bound): Throttled {
    onRefused(limit)
    return new Throttled(
      `${whose} has ${max} ${nouns[limit]} at once, the most that it may have in one process (the limit ${limit}): wait until ` +
        'one has ended, or ask an admin for more.',
      { headers: { 'retry-after': String(retryAfterSeconds) }, holdMs: 0 },
    )
  }

  function count(key: string, more: number) {
    const now = (held.get(key) ?? 0) + more
    if (now === 0) held.delete(key)
    else held.set(key, now)
  }

  function openLane(id: string): Lane {
    const lane = lanes.get(id) ?? { running: 0, waiting: new Set(), load: 0, changedAtMs: performance.now() }
    lanes.set(id, lane)
    return lane
  }

  function changeRunning(lane: Lane, more: 1 | -1): number {
    const nowMs = performance.now()
    const weight = Math.exp((lane.changedAtMs - nowMs) / loadForMs)
    lane.load = lane.load * weight + lane.running * (1 - weight)
    lane.changedAtMs = nowMs
    lane.running += more
    return lane.running
  }

  /** Waits for a place in a lane, and returns how many run there with it. */
  async function enter(lane: Lane, bound: Bound, signal: AbortSignal | undefined): Promise<number> {
    signal?.throwIfAborted()
    if (lane.running < bound.max && lane.waiting.size === 0) return changeRunning(lane, 1)
    if (lane.waiting.size >= waitingMax) throw toRefusal('queriesMax', bound)
    const { promise, resolve, reject } = Promise.withResolvers<number>()
    lane.waiting.add(resolve)
    const giveUp = (toError: () => unknown) => () => {
      if (lane.waiting.delete(resolve)) reject(toError())
    }
    const timer = setTimeout(
      giveUp(() => toRefusal('queriesMax', bound)),
      queryWaitMsMax,
    )
    const onLeft = giveUp(() => signal?.reason)
    signal?.addEventListener('abort', onLeft, { once: true })
    try {
      return await promise
    } finally {
      clearTimeout(timer)
      signal?.removeEventListener('abort', onLeft)
    }
  }

  function leave(id: string, lane: Lane) {
    changeRunning(lane, -1)
    const [next] = lane.waiting
    if (next) {
      lane.waiting.delete(next)
      next(changeRunning(lane, 1))
    } else if (lane.running === 0) lanes.delete(id)
  }

  return {
    /** Runs the handler of a request for its caller. */
    within: <T>(tenant: Tenant, work: () => T): T => current.run(tenant, work),

    /** Runs what is of no single tenant, such as a look at the stores for all streams. */
    outside: <T>(work: () => T): T => current.exit(work),

    /** The request is about this workspace. The first one counts. */
    note(workspaceName: string) {
      const tenant = current.getStore()
      if (tenant) tenant.workspaceName ??= workspaceName
    },

    /** Runs what other requests of the tenant wait for too: it does not end when this client leaves. */
    shared<T>(work: () => T): T {
      const tenant = current.getStore()
      if (!tenant) return work()
      const { signal: _signal, ...others } = tenant
      return current.run(others, work)
    },

    /**
     * Counts one more stream or export of the tenant of this request, until what it returns is called.
     *
     * @throws Throttled
     */
    async hold(limit: Exclude<AtOnce, 'queriesMax'>): Promise<() => void> {
      const tenant = current.getStore()
      if (!tenant) return () => undefined
      const bounds = await toBounds(tenant, limit)
      for (const it of bounds) if ((held.get(`${limit} ${it.id}`) ?? 0) >= it.max) throw toRefusal(limit, it)
      const keys = [toPlaceId(tenant), ...(tenant.organizationId === null ? [] : [tenant.organizationId])]
      for (const id of keys) count(`${limit} ${id}`, 1)
      inAll[limit]++
      let isHeld = true
      return () => {
        if (!isHeld) return
        isHeld = false
        inAll[limit]--
        for (const id of keys) count(`${limit} ${id}`, -1)
      }
    },

    /**
     * Runs a query of the tenant of this request when it is its turn; at once for what is of no tenant.
     *
     * @param run is given the query's priority: 1 goes before 2; 0 for what is of no tenant; and the signal of its client
     * @throws Throttled when too many wait, or for too long; the reason of the signal when the client leaves
     */
    async query<T>(run: (priority: number, signal?: AbortSignal) => Promise<T>): Promise<T> {
      const tenant = current.getStore()
      if (!tenant) return await run(0)
      const entered: [string, Lane][] = []
      let rank = 0
      try {
        for (const bound of await toBounds(tenant, 'queriesMax')) {
          const lane = openLane(bound.id)
          const running = await enter(lane, bound, tenant.signal)
          entered.push([bound.id, lane])
          rank = Math.max(rank || running, lane.load > loadMax ? 2 : 1)
        }
        inAll.queriesMax++
        const priority = Math.min(Math.max(1, rank), priorityMax)
        return await run(priority, tenant.signal).finally(() => inAll.queriesMax--)
      } finally {
        for (const [id, lane] of entered) leave(id, lane)
      }
    },

    /** What a workspace, or without one the organization, has at once in this process. */
    inUse(tenant: Tenant, limit: AtOnce): number {
      const id = tenant.workspaceName === undefined ? (tenant.organizationId ?? '') : toPlaceId(tenant)
      if (limit !== 'queriesMax') return held.get(`${limit} ${id}`) ?? 0
      const lane = lanes.get(id)
      return lane ? lane.running + lane.waiting.size : 0
    },

    /** What all tenants have at once in this process; of queries those that run. */
    inUseOfAll: (limit: AtOnce) => inAll[limit],

    /** Queries that wait for their turn, of all tenants. */
    queriesWaiting: () => [...lanes.values()].reduce((sum, it) => sum + it.waiting.size, 0),
  }
}

export type Tenants = ReturnType<typeof createTenants>

type Bound = { id: string; max: number; whose: string }

const toPlaceId = ({ organizationId, workspaceName, userId }: Tenant) =>
  `${organizationId} ${workspaceName === undefined ? `user ${userId}` : `workspace ${workspaceName}`}`

const toWhose = ({ workspaceName }: Tenant) =>
  workspaceName === undefined ? 'This user' : `The workspace "${workspaceName}"`
