import { AsyncLocalStorage } from 'node:async_hooks'
import { createReadThroughCache } from '../runtime/read-through-cache.ts'
import type { GivenLimits, TenantLimitName, TenantLimits } from '../store/limits.ts'
import { createHolds } from './holds.ts'
import { createLanes } from './lanes.ts'
import { createPlaces, NoPlace } from './places.ts'
import { Throttled } from './throttle.ts'

/**
 * Limits on what a tenant may do at once, so that a greedy one slows nobody else: a workspace, and an organization with all of
 * its workspaces. Each process of the api counts for itself.
 *
 * A request belongs to the organization of its caller, and to the first workspace in which it looks something up (`note`).
 * Until then, and for reads of many workspaces at once, its user stands for the workspace.
 *
 * Queries wait for their turn in the lane of their workspace (`lanes.ts`); all others have limits that reject.
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

export type TenantSettings = {
  /** Asks the database, whose connections the tenants share. */
  find(place: Place): Promise<FoundTenantLimits | undefined>
  defaults: TenantLimits
  /** How long a query may wait for its turn. */
  queryWaitMsMax?: number
  onRefused(limit: AtOnce): void
  onError(error: unknown): void
}

/** How a query is to run. */
export type QueryTurn = {
  /** 1 goes before 2; 0 takes no part: a query of no tenant. */
  priority: number
  /** It is to take one core only. */
  isHeavy: boolean
  /** Aborted when the client leaves. */
  signal?: AbortSignal
}

const freshForMs = 10_000
const placesMax = 10_000
const queryWaitMsMaxDefault = 30_000
const retryAfterSeconds = 2
const noLimits: FoundTenantLimits = { workspace: {}, organization: {} }

const nouns: Record<AtOnce, string> = { streamsMax: 'streams open', exportsMax: 'exports', queriesMax: 'queries' }

export function createTenants(settings: TenantSettings) {
  const { find, defaults, queryWaitMsMax = queryWaitMsMaxDefault, onRefused, onError } = settings
  const current = new AsyncLocalStorage<Tenant>()
  const held = new Map<string, number>()
  const toHoldMs = createHolds(() => performance.now())
  let heavyMax = 1
  const lanes = createLanes({ waitMsMax: queryWaitMsMax, heavyMax: () => heavyMax })
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

  function toRefusal(limit: AtOnce, { id, max, whose }: Bound): Throttled {
    onRefused(limit)
    return new Throttled(
      `${whose} has ${max} ${nouns[limit]} at once, the most that it may have in one process (the limit ${limit}): wait until ` +
        'one has ended, or ask an admin for more.',
      {
        headers: { 'retry-after': String(retryAfterSeconds) },
        holdMs: toHoldMs(`${limit} ${id}`, retryAfterSeconds * 1_000),
      },
    )
  }

  function count(key: string, more: number) {
    const now = (held.get(key) ?? 0) + more
    if (now === 0) held.delete(key)
    else held.set(key, now)
  }

  return {
    /** Runs the handler of a request for its caller. */
    within: <T>(tenant: Tenant, work: () => T): T => current.run(tenant, work),

    /** Runs what is of no single tenant, such as a look at the stores for all streams. */
    outside: <T>(work: () => T): T => current.exit(work),

    /** ClickHouse has so many cores: heavy queries, which take one each, are to leave half of them to others. */
    shareCores(cores: number) {
      heavyMax = Math.max(1, Math.floor(cores / 2))
    },

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
     * @throws Throttled when too many wait, or for too long; the reason of the signal when the client leaves
     */
    async query<T>(run: (turn: QueryTurn) => Promise<T>): Promise<T> {
      const tenant = current.getStore()
      if (!tenant) return await run({ priority: 0, isHeavy: false })
      const { signal } = tenant
      const bounds = await toBounds(tenant, 'queriesMax')
      const turn = await lanes.take(bounds, signal).catch((error: unknown) => {
        const bound = error instanceof NoPlace && bounds.find((it) => it.id === error.laneId)
        throw bound ? toRefusal('queriesMax', bound) : error
      })
      inAll.queriesMax++
      try {
        return await run({ priority: turn.priority, isHeavy: turn.isHeavy, ...(signal && { signal }) })
      } finally {
        inAll.queriesMax--
        turn.end()
      }
    },

    /**
     * Slices of time for work of the tenant of this request that takes long, such as an export; undefined for what is of no tenant.
     * While other tenants have queries, it takes turns with heavy queries.
     */
    slices(): ((sliceMs: number, signal: AbortSignal) => Promise<() => void>) | undefined {
      const tenant = current.getStore()
      return tenant && ((sliceMs, signal) => lanes.takeSlice(toPlaceId(tenant), sliceMs, signal))
    },

    /**
     * Shares so many places, such as connections, among tenants: they take turns, or else the first request of a tenant would wait
     * for all that another one sent before. What is of no tenant does not wait here.
     *
     * @returns waits for a place; what that returns gives it back. Throws NoPlace when it was not its turn in time.
     */
    share(placesMax: number, waitMsMax: number): () => Promise<() => void> {
      const places = createPlaces({ waitingMax: Number.POSITIVE_INFINITY })
      return async () => {
        const tenant = current.getStore()
        if (!tenant) return () => undefined
        // Others may share the answer, so it does not end when this client leaves.
        await places.take(toPlaceId(tenant), placesMax, { untilMs: performance.now() + waitMsMax, signal: undefined })
        return places.release
      }
    },

    /** What a workspace, or without one the organization, has at once in this process. */
    inUse(tenant: Tenant, limit: AtOnce): number {
      const id = tenant.workspaceName === undefined ? (tenant.organizationId ?? '') : toPlaceId(tenant)
      if (limit !== 'queriesMax') return held.get(`${limit} ${id}`) ?? 0
      return lanes.size(id)
    },

    /** What all tenants have at once in this process; of queries those that run. */
    inUseOfAll: (limit: AtOnce) => inAll[limit],

    /** Queries that wait for their turn, of all tenants. */
    queriesWaiting: () => lanes.waiting(),
  }
}

export type Tenants = ReturnType<typeof createTenants>

type Bound = { id: string; max: number; whose: string }

const toPlaceId = ({ organizationId, workspaceName, userId }: Tenant) =>
  `${organizationId} ${workspaceName === undefined ? `user ${userId}` : `workspace ${workspaceName}`}`

const toWhose = ({ workspaceName }: Tenant) =>
  workspaceName === undefined ? 'This user' : `The workspace "${workspaceName}"`
