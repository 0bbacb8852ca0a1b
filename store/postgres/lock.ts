import pg from 'pg'
import type { Queries } from './database.ts'

/** Waits for the advisory lock of this number, and holds it while `work` runs. */
export async function withLock<T>(url: string, number: number, work: () => Promise<T>): Promise<T> {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 10_000, keepAlive: true })
  // A lost connection frees the lock, and the work cannot be stopped.
  client.on('error', () => undefined)
  await client.connect()
  try {
    await client.query('SELECT pg_advisory_lock($1)', [number])
    return await work()
  } finally {
    await client.end()
  }
}

/**
 * Takes the lock of this number until the transaction ends; false when another transaction holds it. Makes one worker of
 * many do some work. Postgres frees the lock when the connection is lost, so the work must be safe to do twice.
 */
export async function tryLock(transaction: Queries, number: number): Promise<boolean> {
  const row = await transaction.row<{ isHeld: boolean }>('SELECT pg_try_advisory_xact_lock($1) AS "isHeld"', [number])
  return row?.isHeld === true
}
