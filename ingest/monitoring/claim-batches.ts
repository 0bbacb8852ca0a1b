import { setTimeout as sleep } from 'node:timers/promises'
import { unavailable } from '../../http/errors.ts'
import type { eventsTable, eventValuesTable } from '../../store/clickhouse/monitoring/tables.ts'
import type { Queries } from '../../store/postgres/database.ts'
import {
  claimEvents,
  confirmClaims,
  findHolders,
  giveUpClaim,
  type Holder,
  takeOverEvents,
} from '../../store/postgres/monitoring/event-claims.ts'
import type { Committer } from '../committer.ts'
import { countValues, type NewEvent, pushEvent, pushValues } from './rows.ts'

/**
 * Stores events that are the first of their prediction id; `event-claims.ts` tells how that is decided. Requests that come
 * together claim in one round, with one statement, and share its fate: should the queue refuse, all of them are refused.
 * A round waits a few milliseconds for company, and longer while others are under way.
 */
type Settings = {
  queries: Queries
  committers: { events: Committer<typeof eventsTable>; eventValues: Committer<typeof eventValuesTable> }
  /** How long a round waits for company. */
  waitMs: number
  /** How long a claim may be open before its ids are free to be taken over. */
  leaseMs: number
  /**
   * For how long nothing is claimed after the queue has refused. Every refused round leaves its ids behind to be taken over:
   * without a pause, clients that send again and again would fill Postgres while the queue is away.
   */
  pauseMs?: number
  /** Called when numbers were taken over, which ClickHouse has to be told. */
  onTakenOver(): void
  onError(error: unknown): void
}

export type Rounds = {
  /**
   * Resolves when all of them are settled: stored for good, or known to have been there.
   *
   * @returns for each event whether it was the first of its prediction id
   * @throws HttpError `unavailable`: any of them may come again
   */
  keep(events: NewEvent[]): Promise<boolean[]>
}

const roundsAtOnce = 4
const pauseMsDefault = 1_000
const eventsPerRound = 10_000
/** Rows that are handed to the queue at a time: as many as fill a block. */
const valuesPerCommit = 65_536
const pollFirstMs = 20
const pollLongestMs = 250
/** Its own outcome is waited for no longer than clients wait for an answer. */
const waitPerLease = 3
const waitMsMin = 5_000

/** What became of an event in a round; `lost` is somebody else's, who may have confirmed it or not. */
const stored = 1
const lost = 2

type Round = { events: NewEvent[]; places: Map<string, number>; outcome: Promise<Uint8Array>; settle: Settle }
type Settle = (outcome: Promise<Uint8Array>) => void

export function createRounds(settings: Settings): Rounds {
  const { queries, committers, leaseMs, pauseMs = pauseMsDefault } = settings
  let refusedUntil = Number.NEGATIVE_INFINITY
  const confirm = createConfirmer(queries)
  let open: Round | undefined
  let timer: NodeJS.Timeout | undefined
  let underWay = 0

  function openRound(): Round {
    const { promise, resolve } = Promise.withResolvers<Uint8Array>()
    timer = setTimeout(closeRound, settings.waitMs)
    return { events: [], places: new Map(), outcome: promise, settle: resolve }
  }

  function closeRound() {
    clearTimeout(timer)
    timer = undefined
    // While all ways are busy the round stays open and grows.
    if (!open || (underWay >= roundsAtOnce && open.events.length < eventsPerRound)) return
    const { events, settle } = open
    open = undefined
    underWay++
    const running = run(events).finally(() => {
      underWay--
      if (open && timer === undefined) closeRound()
    })
    settle(running)
  }

  async function run(events: NewEvent[]): Promise<Uint8Array> {
    const claimed = await atPostgres(() => claimEvents(queries, events))
    return await store(claimed.claim, events, claimed.lost)
  }

  /** Hands the events that were won to the queue, under the number of their claim, and confirms that. */
  async function store(claim: bigint, events: NewEvent[], lostPlaces: number[]): Promise<Uint8Array> {
    const outcome = new Uint8Array(events.length).fill(stored)
    for (const place of lostPlaces) outcome[place] = lost
    try {
      await commit(Number(claim), events, outcome)
    } catch (error) {
      refusedUntil = performance.now() + pauseMs
      // Should this fail as well, the lease runs out.
      giveUpClaim(queries, claim).catch(settings.onError)
      throw error
    }
    if (await atPostgres(() => confirm(claim))) return outcome
    throw unavailable('The queue took longer than an event may be on its way, and others took its prediction id.')
  }

  async function commit(claim: number, events: NewEvent[], outcome: Uint8Array) {
    const receivedMs = Date.now()
    for (let from = 0; from < events.length; ) {
      let values = 0
      let to = from
      for (; to < events.length && values < valuesPerCommit; to++) {
        if (outcome[to] === stored) values += countValues(events[to] as NewEvent)
      }
      await commitRange(from, to, values)
      from = to
    }

    async function commitRange(from: number, to: number, values: number) {
      const eachStored = (push: (event: NewEvent, place: number) => void) => {
        for (let place = from; place < to; place++)
          if (outcome[place] === stored) push(events[place] as NewEvent, place)
      }
      const isEmpty = !outcome.subarray(from, to).includes(stored)
      await Promise.all([
        isEmpty ||
          committers.events.commit(receivedMs, (block) =>
            eachStored((event, place) => pushEvent(block, { claim, place }, event, receivedMs)),
          ),
        values === 0 ||
          committers.eventValues.commit(receivedMs, (block) =>
            eachStored((event, place) => pushValues(block, { claim, place }, event)),
          ),
      ])
    }
  }

  /**
   * Waits for what becomes of events whose ids were somebody else's, and takes over those that are free.
   *
   * @returns for each whether it was stored after all
   */
  async function settleLost(events: NewEvent[]): Promise<boolean[]> {
    const won = events.map(() => false)
    const deadline = performance.now() + Math.max(leaseMs * waitPerLease, waitMsMin)
    let left = [...events.keys()]
    for (let pollMs = pollFirstMs; ; pollMs = Math.min(pollMs * 2, pollLongestMs)) {
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
        // Two that want the same ids in another order: one of them is sent back, and comes again.
        if (isDeadlock(error)) return undefined
        throw error
      })
      if (!claimed) return free.map(({ at }) => at)
      settings.onTakenOver()
      const outcome = await store(claimed.claim, taken, claimed.lost)
      free.forEach(({ at }, index) => {
        won[at] = outcome[index] === stored
      })
      return free.filter(({ at }) => !won[at]).map(({ at }) => at)
    }
  }

  return {
    async keep(events) {
      if (events.length === 0) return []
      // Before anything is claimed: what is claimed and then refused costs more to send again.
      committers.events.refuseWhenFull()
      committers.eventValues.refuseWhenFull()
      if (performance.now() < refusedUntil) throw unavailable('The queue did not take writes a moment ago.')
      open ??= openRound()
      const round = open
      // Of equal ids in one round the first is the one; those after it are duplicates, whatever becomes of it.
      const places = events.map((event) => join(round, event))
      if (round.events.length >= eventsPerRound) closeRound()
      const outcome = await round.outcome
      const contested = places.flatMap((place, at) => (place !== undefined && outcome[place] === lost ? at : []))
      const result = places.map((place) => place !== undefined && outcome[place] === stored)
      if (contested.length > 0) {
        const won = await settleLost(pick(events, contested))
        contested.forEach((at, index) => {
          result[at] = won[index] as boolean
        })
      }
      return result
    },
  }
}

/** The place of an event in a round; undefined for one whose id stands there already. */
function join({ events, places }: Round, event: NewEvent): number | undefined {
  const id = `${event.modelId} ${event.kind} ${event.idHash}`
  if (places.has(id)) return undefined
  const place = events.push(event) - 1
  places.set(id, place)
  return place
}

function pick<T>(list: T[], places: number[]): T[] {
  return places.map((place) => list[place] as T)
}

function requireHolder(holder: Holder | undefined): Holder {
  if (holder) return holder
  throw unavailable('The model was deleted at this moment.')
}

async function atPostgres<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    if (isDeadlock(error)) throw error
    throw unavailable('The store that knows who was first does not answer.', error)
  }
}

function isDeadlock(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === '40P01'
}

/** Confirms claims, those that come while a statement is under way together in the next. */
function createConfirmer(queries: Queries) {
  let next: { claims: bigint[]; confirmed: Promise<Set<bigint>> } | undefined
  let underWay: Promise<unknown> = Promise.resolve()

  function open() {
    const claims: bigint[] = []
    const confirmed = underWay.then(() => {
      next = undefined
      return confirmClaims(queries, claims)
    })
    underWay = confirmed.catch(() => undefined)
    return { claims, confirmed }
  }

  return async function confirm(claim: bigint): Promise<boolean> {
    next ??= open()
    next.claims.push(claim)
    return (await next.confirmed).has(claim)
  }
}
