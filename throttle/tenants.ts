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
 * run, the first of a lane goes before the second ones of all lanes, and so on: ClickHouse pauses those of a lower priority.
 */
export type Tenant = {
  organizationId: string | null
  userId: string | null
  workspaceName?: string
}

export type AtOnce = Extract<TenantLimitName, 'streamsMax' | 'exportsMax' | 'queriesMax'>

type Place = { organizationId: string; workspaceName: string | null }

/** The limits that admins set; undefined for a place that is not there. */
export type FoundTenantLimits = { workspace: GivenLimits; organization: GivenLimits }

type Settings = {
  find(place: Place): Promise<FoundTenantLimits | undefined>
  defaults: TenantLimits
  onRefused(limit: AtOnce): void
  onError(error: unknown): void
}

const freshForMs = 10_000
const placesMax = 10_000
/** More would take memory, and wait for longer than a client does. */
const waitingMax = 200
const waitMsMax = 30_000
const retryAfterSeconds = 2
/** Exports have a lower one still. */
const priorityMax = 8
const noLimits: FoundTenantLimits = { workspace: {}, organization: {} }

const nouns: Record<AtOnce, string> = { streamsMax: 'streams open', exportsMax: 'exports', queriesMax: 'queries' }

/** Those that wait are told how many run with them when it is their turn. */
type Lane = { running: number; waiting: Set<(running: number) => void> }

export function createTenants({ find, defaults, onRefused, onError }: Settings) {
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

  function refuse(limit: AtOnce, { max, whose }: Bound): never {
    onRefused(limit)
    throw new Throttled(
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
    const lane = lanes.get(id) ?? { running: 0, waiting: new Set() }
    lanes.set(id, lane)
    return lane
  }

  /** Waits for a place in a lane, and returns how many run there with it. */
  async function enter(lane: Lane, bound: Bound): Promise<number> {
    if (lane.running < bound.max && lane.waiting.size === 0) return ++lane.running
    if (lane.waiting.size >= waitingMax) refuse('queriesMax', bound)
    const { promise, resolve } = Promise.withResolvers<number | undefined>()
    lane.waiting.add(resolve)
    const timer = setTimeout(() => {
      lane.waiting.delete(resolve)
      resolve(undefined)
    }, waitMsMax)
    const running = await promise
    clearTimeout(timer)
    return running ?? refuse('queriesMax', bound)
  }

  function leave(id: string, lane: Lane) {
    lane.running--
    const [next] = lane.waiting
    if (next) {
      lane.waiting.delete(next)
      next(++lane.running)
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

    /**
     * Counts one more stream or export of the tenant of this request, until what it returns is called.
     *
     * @throws Throttled
     */
    async hold(limit: Exclude<AtOnce, 'queriesMax'>): Promise<() => void> {
      const tenant = current.getStore()
      if (!tenant) return () => undefined
      const bounds = await toBounds(tenant, limit)
      for (const it of bounds) if ((held.get(`${limit} ${it.id}`) ?? 0) >= it.max) refuse(limit, it)
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
     * @param run is given the query's priority: 1 goes before 2; 0 for what is of no tenant
     * @throws Throttled when too many wait, or for too long
     */
    async query<T>(run: (priority: number) => Promise<T>): Promise<T> {
      const tenant = current.getStore()
      if (!tenant) return await run(0)
      const entered: [string, Lane][] = []
      let rank = 0
      try {
        for (const bound of await toBounds(tenant, 'queriesMax')) {
          const lane = openLane(bound.id)
          const running = await enter(lane, bound)
          entered.push([bound.id, lane])
          rank ||= running
        }
        inAll.queriesMax++
        return await run(Math.min(Math.max(1, rank), priorityMax)).finally(() => inAll.queriesMax--)
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
