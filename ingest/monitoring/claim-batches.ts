import { setTimeout as sleep } from 'node:timers/promises'
import { unavailable } from '../../http/errors.ts'
import { createBatchLoader } from '../../runtime/batch-loader.ts'
import type { eventsTable, eventValuesTable } from '../../store/clickhouse/monitoring/tables.ts'
import type { valueChunksTable } from '../../store/clickhouse/monitoring/value-chunks.ts'
import type { Queries } from '../../store/postgres/database.ts'
import {
  type Claimed,
  claimEvents,
  confirmClaims,
  findHolders,
  giveUpClaim,
  type Holder,
  takeOverEvents,
} from '../../store/postgres/monitoring/event-claims.ts'
import type { Committer } from '../committer.ts'
import { countValues, type NewEvent, pushEvent, pushValues } from './rows.ts'
import { type EventGroup, groupEvents, pushValueChunks, toValueChunks, type ValueChunks } from './value-chunks.ts'

/**
 * Stores events that are the first with their prediction id; `store/postgres/monitoring/event-claims.ts` has the protocol.
 * Concurrent requests share a batch: one statement claims its ids, and if the queue rejects it, all requests of the batch fail. A batch
 * closes a few milliseconds after its first event, or later while others are being stored.
 */
type Settings = {
  queries: Queries
  committers: {
    events: Committer<typeof eventsTable>
    eventValues: Committer<typeof eventValuesTable>
    eventValueChunks: Committer<typeof valueChunksTable>
  }
  /** Group-commit delay of a batch. */
  waitMs: number
  /** A claim that is open for longer is stale: its ids can be taken over. */
  leaseMs: number
  /**
   * How long nothing is claimed after the queue rejected a batch. Such a batch leaves its claims in Postgres: without the
   * pause, clients that retry would fill it while the queue is down.
   */
  pauseMs?: number
  /** Called when ids were taken over, which leaves tombstones to be written. */
  onTakenOver(): void
  onError(error: unknown): void
}

export type ClaimBatches = {
  /**
   * Resolves when each event is either stored or known to be a duplicate.
   *
   * @returns for each event whether it is the first with its prediction id, and thus stored
   * @throws HttpError `unavailable`: the same events may be sent again
   */
  store(events: NewEvent[]): Promise<boolean[]>
}

const batchesAtOnce = 4
const pauseMsDefault = 1_000
const eventsPerBatch = 10_000
/** Values that go to the queue at a time: as many as fill a block. */
const valuesPerCommit = 65_536
const pollMsMin = 20
const pollMsMax = 250
/** A request waits for the claims of others this many leases, and at least this long. */
const waitPerLease = 3
const waitMsMin = 5_000

/** The outcome of an event in a batch. `lost`: another claim holds its id, confirmed or not. */
const stored = 1
const lost = 2

type OpenBatch = { events: NewEvent[]; indexes: Map<string, number>; outcome: Promise<Uint8Array>; settle: Settle }
type Settle = (outcome: Promise<Uint8Array>) => void
type Origin = { claim: number; receivedMs: number; takesChunks: boolean }

export function createClaimBatches(settings: Settings): ClaimBatches {
  const { queries, committers, leaseMs, pauseMs = pauseMsDefault } = settings
  let refusedUntil = Number.NEGATIVE_INFINITY
  const confirm = createConfirmer(queries)
  let open: OpenBatch | undefined
  let timer: NodeJS.Timeout | undefined
  let underWay = 0

  function openBatch(): OpenBatch {
    const { promise, resolve } = Promise.withResolvers<Uint8Array>()
    timer = setTimeout(closeBatch, settings.waitMs)
    return { events: [], indexes: new Map(), outcome: promise, settle: resolve }
  }

  function closeBatch() {
    clearTimeout(timer)
    timer = undefined
    // While as many batches as allowed are being stored, this one stays open and grows.
    if (!open || (underWay >= batchesAtOnce && open.events.length < eventsPerBatch)) return
    const { events, settle } = open
    open = undefined
    underWay++
    const running = run(events).finally(() => {
      underWay--
      if (open && timer === undefined) closeBatch()
    })
    settle(running)
  }

  async function run(events: NewEvent[]): Promise<Uint8Array> {
    const claimed = await atPostgres(() => claimEvents(queries, events))
    return await storeClaimed(claimed, events)
  }

  /** Sends the events that were won to the queue, numbered by their claim, and confirms the claim. */
  async function storeClaimed({ claim, lost: lostIndexes, takesChunks }: Claimed, events: NewEvent[]) {
    const outcome = new Uint8Array(events.length).fill(stored)
    for (const index of lostIndexes) outcome[index] = lost
    try {
      await commit({ claim: Number(claim), receivedMs: Date.now(), takesChunks }, events, outcome)
    } catch (error) {
      refusedUntil = performance.now() + pauseMs
      // If this fails too, the ids are free when the lease ends.
      giveUpClaim(queries, claim).catch(settings.onError)
      throw error
    }
    if (await atPostgres(() => confirm(claim))) return outcome
    throw unavailable(
      'The queue was too slow: the claim became stale, and another request took over the prediction id.',
    )
  }

  async function commit(origin: Origin, events: NewEvent[], outcome: Uint8Array) {
    for (let next = 0; next < events.length; ) {
      const places: number[] = []
      let values = 0
      for (; next < events.length && values < valuesPerCommit; next++) {
        if (outcome[next] !== stored) continue
        places.push(next)
        values += countValues(events[next] as NewEvent)
      }
      await commitPlaces(origin, events, places)
    }
  }

  async function commitPlaces({ claim, receivedMs, takesChunks }: Origin, events: NewEvent[], places: number[]) {
    if (places.length === 0) return
    const { rows, chunks } = sortByForm(groupEvents(events, places), takesChunks)
    await Promise.all([
      committers.events.commit(receivedMs, places.length, (block) => {
        for (const index of places) pushEvent(block, { claim, index }, events[index] as NewEvent, receivedMs)
      }),
      rows.values === 0 ||
        committers.eventValues.commit(receivedMs, rows.values, (block) => {
          for (const index of rows.places) pushValues(block, { claim, index }, events[index] as NewEvent)
        }),
      // Their values count: compressing many of them takes as long as compressing many rows.
      chunks.values === 0 ||
        committers.eventValueChunks.commit(receivedMs, chunks.values, (block) => {
          for (const it of chunks.groups) pushValueChunks(block, { claim, receivedMs }, it)
        }),
    ])
  }

  /**
   * Waits until the claims that hold the ids of these events are confirmed, and takes over ids that are free.
   *
   * @returns for each event whether it was stored after all
   */
  async function settleLost(events: NewEvent[]): Promise<boolean[]> {
    const won = events.map(() => false)
    const deadline = performance.now() + Math.max(leaseMs * waitPerLease, waitMsMin)
    let left = [...events.keys()]
    for (let pollMs = pollMsMin; ; pollMs = Math.min(pollMs * 2, pollMsMax)) {
      const holders = await atPostgres(() => findHolders(queries, pick(events, left), leaseMs))
      const held = left.map((at, index) => ({ at, holder: requireHolder(holders[index]) }))
      const free = held.filter(({ holder }) => holder.state === 'free')
      const stillLost = free.length > 0 ? await takeOver(free) : []
      left = [...held.filter(({ holder }) => holder.state === 'open').map(({ at }) => at), ...stillLost]
      if (left.length === 0) return won
      if (performance.now() > deadline) throw unavailable('Another request with the same prediction id is under way.')
      await sleep(pollMs)
    }

    async function takeOver(free: { at: number; holder: Holder }[]): Promise<number[]> {
      const taken = free.map(({ at }) => events[at] as NewEvent)
      const ids = taken.map((event, index) => ({ ...event, from: (free[index] as { holder: Holder }).holder.claim }))
      const claimed = await atPostgres(() => takeOverEvents(queries, ids, leaseMs)).catch((error) => {
        // Two requests took over the same ids in different orders; Postgres ended one, which tries again.
        if (isDeadlock(error)) return undefined
        throw error
      })
      if (!claimed) return free.map(({ at }) => at)
      settings.onTakenOver()
      const outcome = await storeClaimed(claimed, taken)
      free.forEach(({ at }, index) => {
        won[at] = outcome[index] === stored
      })
      return free.filter(({ at }) => !won[at]).map(({ at }) => at)
    }
  }

  return {
    async store(events) {
      if (events.length === 0) return []
      // Checked before anything is claimed: a failed claim makes a retry more expensive.
      committers.events.refuseWhenFull()
      committers.eventValues.refuseWhenFull()
      committers.eventValueChunks.refuseWhenFull()
      if (performance.now() < refusedUntil) throw unavailable('The queue did not take writes a moment ago.')
      open ??= openBatch()
      const batch = open
      // Of equal ids in one batch the first counts; the others are duplicates, even if the first is lost.
      const indexes = events.map((event) => join(batch, event))
      if (batch.events.length >= eventsPerBatch) closeBatch()
      const outcome = await batch.outcome
      const contested = indexes.flatMap((index, at) => (index !== undefined && outcome[index] === lost ? at : []))
      const result = indexes.map((index) => index !== undefined && outcome[index] === stored)
      if (contested.length > 0) {
        const won = await settleLost(pick(events, contested))
        contested.forEach((at, nth) => {
          result[at] = won[nth] as boolean
        })
      }
      return result
    },
  }
}

/** Each group as a whole is stored as chunks or as rows. */
function sortByForm(groups: EventGroup[], takesChunks: boolean) {
  const rows = { values: 0, places: [] as number[] }
  const chunks = { values: 0, groups: [] as ValueChunks[] }
  for (const group of groups) {
    const values = group.events.reduce((sum, it) => sum + countValues(it), 0)
    const asChunks = takesChunks ? toValueChunks(group, values) : undefined
    if (asChunks) chunks.groups.push(asChunks)
    else for (const place of group.places) rows.places.push(place)
    const form = asChunks ? chunks : rows
    form.values += values
  }
  return { rows, chunks }
}

/** Adds an event to a batch. @returns its index, or undefined if the batch has its id already */
function join({ events, indexes }: OpenBatch, event: NewEvent): number | undefined {
  const id = `${event.modelId} ${event.kind} ${event.idHash}`
  if (indexes.has(id)) return undefined
  const index = events.push(event) - 1
  indexes.set(id, index)
  return index
}

function pick<T>(list: T[], indexes: number[]): T[] {
  return indexes.map((index) => list[index] as T)
}

function requireHolder(holder: Holder | undefined): Holder {
  if (holder) return holder
  throw unavailable('The model was deleted meanwhile.')
}

async function atPostgres<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    if (isDeadlock(error)) throw error
    throw unavailable('The store that knows which prediction ids are taken does not answer.', error)
  }
}

function isDeadlock(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === '40P01'
}

/** Confirms claims; those that come while a statement runs are confirmed together by the next one. */
function createConfirmer(queries: Queries) {
  const isConfirmed = createBatchLoader(async (claims: bigint[]) => {
    const confirmed = await confirmClaims(queries, claims)
    return new Map(claims.map((claim) => [claim, confirmed.has(claim)]))
  })
  return async (claim: bigint) => (await isConfirmed(claim)) === true
}
