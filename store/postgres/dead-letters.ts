import type { Queries } from './database.ts'

/** Rows that ClickHouse can never store, and why. */
export type DeadLetter = {
  id: bigint
  queue: string
  rows: number
  receivedMs: bigint
  reason: string
  setAsideAt: Date
}

type NewDeadLetter = { queue: string; rows: number; receivedMs: number; reason: string; bytes: Buffer }

export async function insertDeadLetter(queries: Queries, letter: NewDeadLetter): Promise<void> {
  await queries.row('INSERT INTO dead_letters (queue, rows, received_ms, reason, block) VALUES ($1, $2, $3, $4, $5)', [
    letter.queue,
    letter.rows,
    letter.receivedMs,
    letter.reason,
    letter.bytes,
  ])
}

const shownColumns = `id, queue, rows, received_ms AS "receivedMs", reason, set_aside_at AS "setAsideAt"`

/** The newest dead letters from before `beforeId`, without their blocks. */
export async function listDeadLetters(queries: Queries, limit: number, beforeId?: bigint): Promise<DeadLetter[]> {
  return await queries.rows<DeadLetter>(
    `SELECT ${shownColumns} FROM dead_letters WHERE $2::bigint IS NULL OR id < $2 ORDER BY id DESC LIMIT $1`,
    [limit, beforeId ?? null],
  )
}

export async function findDeadLetter(
  queries: Queries,
  id: bigint,
): Promise<(DeadLetter & { bytes: Buffer }) | undefined> {
  return await queries.row(`SELECT ${shownColumns}, block AS bytes FROM dead_letters WHERE id = $1`, [id])
}

/** Deletes a dead letter and answers it; undefined when there is none of this id. */
export async function takeDeadLetter(
  queries: Queries,
  id: bigint,
): Promise<(DeadLetter & { bytes: Buffer }) | undefined> {
  return await queries.row(`DELETE FROM dead_letters WHERE id = $1 RETURNING ${shownColumns}, block AS bytes`, [id])
}

/** How many there are, and how many rows are in them. */
export async function countDeadLetters(queries: Queries): Promise<{ letters: number; rows: number }> {
  const row = await queries.row<{ letters: number; rows: number }>(
    'SELECT count(*)::float8 AS letters, coalesce(sum(rows), 0)::float8 AS rows FROM dead_letters',
  )
  return row ?? { letters: 0, rows: 0 }
}
