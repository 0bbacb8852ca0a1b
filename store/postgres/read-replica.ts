/**
 * Reads from a streaming replica that still see every commit made before they began (read-your-writes):
 *
 * 1. Ask the primary for its WAL position. A query that started before the read is too old for it, so all reads that arrive
 *    meanwhile share the next one.
 * 2. Ask the replica, on the connection that will read, whether it has replayed up to there; poll every few milliseconds for a
 *    short while.
 * 3. If it has, read from it. If it lags, is down, is on another timeline, or cancels the read because of a replay conflict,
 *    read from the primary. A bad replica costs time, never a stale answer.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { Counter, type Registry } from 'prom-client'
import { createBatchLoader } from '../../runtime/batch-loader.ts'
import { openDatabase, type Queries, type Share } from './database.ts'
import { compareServers, foreignServer, readStanding, readWalPosition, type WalPosition } from './wal-position.ts'

export type ReadReplica = Queries & {
  /**
   * Resolves when the replica can be used, or is away and may come back.
   *
   * @throws Error when it is not a replica of the primary
   */
  check(): Promise<void>
  close(): Promise<void>
}

type Deps = {
  primary: Queries
  /** Undefined: the primary answers everything. */
  replicaUrl: string | undefined
  share?: Share
  metricsRegistry: Registry
  /** Called for errors of the replica; reads go on without it. */
  onError(error: unknown): void
}

const catchUpMsMax = 50
const lookAgainMs = 4
/** Limit to connect, and to answer where it stands; a slower replica counts as down. */
const answerMsMax = 500
/** A replica that is down, or unusable, is skipped for this long. */
const awayMs = 1_000

/** Opens the reads of a process, and counts which server answered them. */
export function openReadReplica({ primary, replicaUrl, share, metricsRegistry, onError }: Deps): ReadReplica {
  const reads = new Counter({
    name: 'svc_postgres_reads_total',
    help: 'Reads of many rows from Postgres, by the server that answered',
    labelNames: ['server'],
    registers: [metricsRegistry],
  })
  function countPrimary<T>(read: (queries: Queries) => Promise<T>): Promise<T> {
    reads.inc({ server: 'primary' })
    return read(primary)
  }
  if (replicaUrl === undefined) {
    return { ...toQueries(countPrimary), check: async () => undefined, close: async () => undefined }
  }

  const replica = openDatabase({
    url: replicaUrl,
    connectWaitMs: answerMsMax,
    ...(share && { share }),
    onError,
  })
  // Callers that arrive during a query share the next one: a position from before they arrived would be too old.
  const positions = createBatchLoader(async () => new Map([['now', await readWalPosition(primary)]]))
  let awayUntil = 0
  /** The last read waited in vain: no read waits until one finds the replica caught up at once. */
  let isLate = false

  /** Whether the error was reported: once, not with each attempt. */
  let isSkipped = false

  function skipReplica(error: unknown) {
    awayUntil = performance.now() + awayMs
    if (!isSkipped) onError(error)
    isSkipped = true
  }

  async function isCurrent(queries: Queries, position: WalPosition): Promise<boolean> {
    const waitUntil = performance.now() + (isLate ? 0 : catchUpMsMax)
    for (;;) {
      const standing = await readStanding(queries, position)
      const kind = compareServers(position, standing)
      if (kind === 'foreign' || kind === 'diverged') {
        skipReplica(new Error(`The Postgres at POSTGRES_READ_URL cannot be read: ${whyNot[kind]}`))
        return false
      }
      isSkipped = false
      if (kind === 'primary') return true
      if (standing.isReached || performance.now() >= waitUntil) {
        isLate = !standing.isReached
        return standing.isReached
      }
      await sleep(lookAgainMs)
    }
  }

  /** Undefined when it cannot answer, for whatever reason. */
  async function readReplica<T>(read: (queries: Queries) => Promise<T>): Promise<{ answer: T } | undefined> {
    if (performance.now() < awayUntil) return undefined
    let hasAnswered = false
    try {
      const position = (await positions('now')) as WalPosition
      const giveUp = new AbortController()
      const work = replica.transaction(async (queries) => {
        const found = await isCurrent(queries, position)
        hasAnswered = true
        // The caller may have gone to the primary meanwhile.
        return found && !giveUp.signal.aborted ? { answer: await read(queries) } : undefined
      })
      // A machine that has vanished does not even refuse the connection.
      const timer = sleep(2 * answerMsMax, undefined, { signal: giveUp.signal }).then(
        () => (hasAnswered ? work : Promise.reject(new Error('the replica of Postgres does not answer'))),
        () => work,
      )
      try {
        return await Promise.race([work, timer])
      } finally {
        giveUp.abort()
      }
    } catch (error) {
      // Replay conflicts are ordinary. An error before the replica answered means that it is down.
      if (hasAnswered) onError(error)
      else skipReplica(error)
      return undefined
    }
  }

  return {
    ...toQueries(async (read) => {
      const found = await readReplica(read)
      if (!found) return await countPrimary(read)
      reads.inc({ server: 'replica' })
      return found.answer
    }),
    async check() {
      const position = await readWalPosition(primary)
      const standing = await readStanding(replica, position).catch(skipReplica)
      if (standing && compareServers(position, standing) === 'foreign') {
        throw new Error(`The Postgres at POSTGRES_READ_URL (${new URL(replicaUrl).host}) ${foreignServer}`)
      }
    },
    close: () => replica.close(),
  }
}

const whyNot = {
  foreign: 'it is of another system, or another database',
  diverged: 'it takes writes of its own, or is not yet on the timeline of the primary',
}

function toQueries(run: <T>(read: (queries: Queries) => Promise<T>) => Promise<T>): Queries {
  return {
    rows: (...of) => run((queries) => queries.rows(...of)),
    row: (...of) => run((queries) => queries.row(...of)),
  }
}
