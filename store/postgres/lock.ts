import pg from 'pg'

/** Waits until nobody else holds the lock of this number, and holds it while `work` runs. */
export async function withLock<T>(url: string, number: number, work: () => Promise<T>): Promise<T> {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 10_000, keepAlive: true })
  // Its end means that the lock is free again, which the work cannot be told.
  client.on('error', () => undefined)
  await client.connect()
  try {
    await client.query('SELECT pg_advisory_lock($1)', [number])
    return await work()
  } finally {
    await client.end()
  }
}
