import pg from 'pg'

/** Longest wait for Postgres to take a block before the request is refused. */
const commandWaitMs = 5_000
const connectWaitMs = 3_000

/** BullMQ names its tables without a schema: the pool sets the search path. */
export function openPool(postgresUrl: string, connectionsMax: number) {
  const pool = new pg.Pool({
    connectionString: postgresUrl,
    max: connectionsMax,
    options: '-c search_path=bullmq',
    connectionTimeoutMillis: connectWaitMs,
    query_timeout: commandWaitMs,
    keepAlive: true,
  })
  const { connect, query } = pool
  // Only the forms that return a promise: BullMQ uses no others.
  pool.connect = nameConnectionErrors(connect.bind(pool)) as typeof connect
  pool.query = nameConnectionErrors(query.bind(pool)) as typeof query
  return pool
}

/**
 * Gives every error that means "Postgres is away" the code ECONNREFUSED. BullMQ waits before it tries again only after
 * that code. After any other it tries again at once, and when such an error needs no waiting, that loop blocks the process.
 */
function nameConnectionErrors(run: (...args: never[]) => unknown) {
  return (...args: never[]) => {
    const result = run(...args)
    if (!(result instanceof Promise)) return result
    return result.catch((error: unknown) => {
      if (error instanceof Error && isAway(error)) Object.assign(error, { code: 'ECONNREFUSED' })
      throw error
    })
  }
}

/** Time-outs of the pool have no code; SQLSTATE classes 08, 53 and 57P are connection, resources and shutdown. */
function isAway(error: Error): boolean {
  if (!('code' in error)) return true
  return typeof error.code === 'string' && /^(E[A-Z]+|(08|53)...|57P..)$/.test(error.code)
}
