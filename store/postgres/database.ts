import pg from 'pg'

/**
 * Runs statements: the pool itself, or one connection inside a transaction.
 *
 * A statement with a name is prepared: each connection parses and plans it once. For lookups that many requests make, whose rules of
 * access take ten times as long to plan as to run. Its text is always the same.
 */
export type Queries = {
  /** All rows. Integers of 64 bits come as bigint. */
  rows<T>(sql: string, values?: unknown[], name?: string): Promise<T[]>
  /** The first row, if there is one. */
  row<T>(sql: string, values?: unknown[], name?: string): Promise<T | undefined>
}

export type Database = Queries & {
  /** Runs `work` in one transaction: it commits as a whole, or not at all. */
  transaction<T>(work: (queries: Queries) => Promise<T>): Promise<T>
  close(): Promise<void>
}

type Settings = {
  url: string
  connectionsMax?: number
  connectWaitMs?: number
  /** Of those who wait for a connection, tells whose turn it is. */
  share?: Share
  /** Called for errors of idle connections, which the pool replaces by itself. */
  onError(error: Error): void
}

/** Waits for one of so many connections, for so long at most; what it returns gives it back. */
export type Share = (connections: number, waitMsMax: number) => () => Promise<() => void>

const inOrder: Share = () => async () => () => undefined

/**
 * A longer wait for a connection is answered as "unavailable". A Postgres that is down refuses at once; one on a machine that is
 * busy otherwise was seen to take three seconds.
 */
const connectWaitMsDefault = 10_000
const statementWaitMs = 15_000

const int8Oid = 20

/** Opens a pool of connections; the first one is made by the first query. */
export function openDatabase(settings: Settings): Database {
  const { url, connectionsMax = 10, connectWaitMs = connectWaitMsDefault, share = inOrder, onError } = settings
  const pool = new pg.Pool({
    connectionString: url,
    max: connectionsMax,
    connectionTimeoutMillis: connectWaitMs,
    query_timeout: statementWaitMs,
    idleTimeoutMillis: 30_000,
    types: { getTypeParser },
  })
  // A Postgres that ends with this process may end connections that are being closed.
  pool.on('error', (error) => pool.ending || onError(error))
  // Between connecting and the first statement nobody else listens, and an error that nobody hears ends the process.
  pool.on('connect', (client) => client.on('error', () => undefined))

  const takeTurn = share(connectionsMax, connectWaitMs)

  async function run(statement: Statement) {
    const leave = await takeTurn()
    try {
      return await pool.query(statement)
    } finally {
      leave()
    }
  }

  async function connect(): Promise<{ client: pg.PoolClient; release(broken: boolean): void }> {
    const leave = await takeTurn()
    try {
      const client = await pool.connect()
      const release = (broken: boolean) => {
        client.release(broken)
        leave()
      }
      return { client, release }
    } catch (error) {
      leave()
      throw error
    }
  }

  return {
    ...toQueries((statement) => nameTimeouts(() => run(statement))),
    async transaction(work) {
      const { client, release } = await nameTimeouts(connect)
      client.on('error', onError)
      const run = (statement: Statement) => nameTimeouts(() => client.query(statement))
      try {
        await run({ text: 'BEGIN' })
        const result = await work(toQueries(run))
        await run({ text: 'COMMIT' })
        release(false)
        return result
      } catch (error) {
        // A connection on which ROLLBACK fails is closed, not returned to the pool.
        const broken = await client.query('ROLLBACK').then(
          () => false,
          () => true,
        )
        release(broken)
        throw error
      } finally {
        client.off('error', onError)
      }
    },
    close: () => pool.end(),
  }
}

type Statement = { text: string; values?: unknown[]; name?: string }

function toQueries(run: (statement: Statement) => Promise<pg.QueryResult>): Queries {
  const toStatement = (text: string, values?: unknown[], name?: string): Statement => ({
    text,
    ...(values && { values }),
    ...(name !== undefined && { name }),
  })
  return {
    rows: async (...of) => (await run(toStatement(...of))).rows,
    row: async (...of) => (await run(toStatement(...of))).rows[0],
  }
}

function getTypeParser(oid: number, format?: 'text' | 'binary') {
  if (oid === int8Oid && format !== 'binary') return BigInt
  return pg.types.getTypeParser(oid, format as 'text')
}

/** Names the pool's time-outs `StoreAway`: they have no code, and messages must not be parsed. */
async function nameTimeouts<T>(run: () => Promise<T>): Promise<T> {
  try {
    return await run()
  } catch (error) {
    if (error instanceof Error && !('code' in error)) error.name = 'StoreAway'
    throw error
  }
}

/** True for SQLSTATE 23505: a UNIQUE constraint was violated. */
export function isUniqueViolation(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === '23505'
}
