import pg from 'pg'

/** The longest wait for Postgres before the request is refused; for a connection as in `store/postgres/database.ts`. */
const commandWaitMs = 5_000
const connectWaitMs = 10_000

/** BullMQ names its tables without a schema: the pool sets the search path. */
export function openPool(postgresUrl: string, connectionsMax: number, onError: (error: Error) => void) {
  const pool = new pg.Pool({
    connectionString: postgresUrl,
    max: connectionsMax,
    options: '-c search_path=bullmq',
    connectionTimeoutMillis: connectWaitMs,
    query_timeout: commandWaitMs,
    keepAlive: true,
  })
  // An error that nobody hears ends the process; whoever uses the connection is told by its next statement.
  pool.on('connect', (client) => client.on('error', () => undefined))
  // A Postgres that ends with this process may end connections that are being closed.
  pool.on('error', (error) => pool.ending || onError(error))
  const { connect, query } = pool
  // Only the forms that return a promise: BullMQ uses no others.
  pool.connect = nameConnectionErrors(connect.bind(pool)) as typeof connect
  pool.query = nameConnectionErrors(query.bind(pool)) as typeof query
  return pool
}

/**
 * Gives every error that means "Postgres is down" the code ECONNREFUSED. Only after that code does BullMQ wait before it tries
 * again. After others it retries at once, and that loop can block the process.
 */
function nameConnectionErrors(run: (...args: never[]) => unknown) {
  return (...args: never[]) => {
    const result = run(...args)
    if (!(result instanceof Promise)) return result
    return result.catch((error: unknown) => {
      if (error instanceof Error && isDown(error)) Object.assign(error, { code: 'ECONNREFUSED' })
      throw error
    })
  }
}

/** Time-outs of the pool have no code; SQLSTATE classes 08, 53 and 57P are connection, resources and shutdown. */
function isDown(error: Error): boolean {
  if (!('code' in error)) return true
  return typeof error.code === 'string' && /^(E[A-Z]+|(08|53)...|57P..)$/.test(error.code)
}
