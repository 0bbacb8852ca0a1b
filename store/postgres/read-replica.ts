/**
 * Reads that may be answered by a streaming replica, without ever being older than what was committed before they began:
 *
 * 1. The primary is asked how far its WAL goes. A question that was under way before a read began is of no use to it;
 *    all reads that come meanwhile share the next one.
 * 2. The replica is asked, on the connection that will read, whether it has replayed up to there; if not, again every
 *    few milliseconds for a short while.
 * 3. When it has, it answers. When it has not, is away, belongs to another history, or ends the read because its own
 *    replay is in the way, the primary answers: what the replica lacks costs the primary's time and nothing else.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { Counter, type Registry } from 'prom-client'
import { openDatabase, type Queries } from './database.ts'
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
  metricsRegistry: Registry
  /** Called for faults of the replica; reads go on without it. */
  onError(error: unknown): void
}

const catchUpMsMax = 50
const lookAgainMs = 4
/** A replica that has not answered by then is away: to connect, and to be asked where it stands. */
const answerMsMax = 500
/** A replica that is away, or no use, is not asked again before this has passed. */
const awayMs = 1_000

/** Opens the reads of a process, and counts which server answered them. */
export function openReadReplica({ primary, replicaUrl, metricsRegistry, onError }: Deps): ReadReplica {
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

  const replica = openDatabase({ url: replicaUrl, connectWaitMs: answerMsMax, onError })
  const askPosition = createShared(() => readWalPosition(primary))
  let awayUntil = 0
  /** Whether the last read waited in vain: then nobody waits until one finds it there at once. */
  let isLate = false

  /** Reported once, not with each try. */
  let isAside = false

  function setAside(error: unknown) {
    awayUntil = performance.now() + awayMs
    if (!isAside) onError(error)
    isAside = true
  }

  async function isCurrent(queries: Queries, position: WalPosition): Promise<boolean> {
    const waitUntil = performance.now() + (isLate ? 0 : catchUpMsMax)
    for (;;) {
      const standing = await readStanding(queries, position)
      const kind = compareServers(position, standing)
      if (kind === 'foreign' || kind === 'diverged') {
        setAside(new Error(`The Postgres at POSTGRES_READ_URL cannot be read: ${whyNot[kind]}`))
        return false
      }
      isAside = false
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
    let isHeard = false
    try {
      const position = await askPosition()
      const giveUp = new AbortController()
      const work = replica.transaction(async (queries) => {
        const found = await isCurrent(queries, position)
        isHeard = true
        // Whoever asked has gone to the primary meanwhile.
        return found && !giveUp.signal.aborted ? { answer: await read(queries) } : undefined
      })
      // A machine that has vanished answers nothing at all, not even that it is away.
      const timer = sleep(2 * answerMsMax, undefined, { signal: giveUp.signal }).then(
        () => (isHeard ? work : Promise.reject(new Error('the replica of Postgres does not answer'))),
        () => work,
      )
      try {
        return await Promise.race([work, timer])
      } finally {
        giveUp.abort()
      }
    } catch (error) {
      // Conflicts with its replay are ordinary, and pass; one that did not get as far is away.
      if (isHeard) onError(error)
      else setAside(error)
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
      const standing = await readStanding(replica, position).catch(setAside)
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
    rows: (sql, values) => run((queries) => queries.rows(sql, values)),
    row: (sql, values) => run((queries) => queries.row(sql, values)),
  }
}

/** One question at a time: whoever comes while one is under way shares the next, which begins after they came. */
function createShared<T>(ask: () => Promise<T>): () => Promise<T> {
  let next: Promise<T> | undefined
  let underWay: Promise<unknown> = Promise.resolve()

  function open() {
    const answer = underWay.then(() => {
      next = undefined
      return ask()
    })
    underWay = answer.catch(() => undefined)
    return answer
  }

  return () => {
    next ??= open()
    return next
  }
}
