import type { Database, Queries } from '../database.ts'

/** A method call on an experiment. Arguments and result are JSON text. It is pending until it has an end time. */
export type ExperimentCall = {
  id: string
  method: string
  arguments: string
  result: string | null
  error: string | null
  createdAtMs: bigint
  finishedAtMs: bigint | null
}

const callColumns = `id, method, arguments, result, error, created_at_ms AS "createdAtMs",
  finished_at_ms AS "finishedAtMs"`

/** Inserts for one experiment are serialized, so that the count is exact. */
const callsLock = 7392040

type NewCall = { method: string; arguments: string; nowMs: number }
type CallLimits = { pendingMax: number; finishedKept: number }

/**
 * Inserts a call, and deletes the oldest finished calls beyond `finishedKept`.
 *
 * @returns its id; undefined, and nothing is stored, when `pendingMax` calls are pending
 */
export async function insertCall(
  database: Database,
  experimentId: bigint,
  call: NewCall,
  { pendingMax, finishedKept }: CallLimits,
): Promise<string | undefined> {
  return await database.transaction(async (queries) => {
    await queries.row('SELECT pg_advisory_xact_lock($1, hashint8($2))', [callsLock, experimentId])
    const row = await queries.row<{ id: string }>(
      `INSERT INTO experiment_calls (experiment_id, method, arguments, created_at_ms)
       SELECT $1, $2, $3, $4 WHERE $5 > (
         SELECT count(*) FROM experiment_calls WHERE experiment_id = $1 AND finished_at_ms IS NULL)
       RETURNING id`,
      [experimentId, call.method, call.arguments, call.nowMs, pendingMax],
    )
    await queries.row(
      `DELETE FROM experiment_calls WHERE id IN (
         SELECT id FROM experiment_calls WHERE experiment_id = $1 AND finished_at_ms IS NOT NULL
         ORDER BY place DESC OFFSET $2)`,
      [experimentId, finishedKept],
    )
    return row?.id
  })
}

/** The pending calls of an experiment, oldest first. */
export async function listPendingCalls(queries: Queries, experimentId: bigint): Promise<ExperimentCall[]> {
  return await queries.rows<ExperimentCall>(
    `SELECT ${callColumns} FROM experiment_calls WHERE experiment_id = $1 AND finished_at_ms IS NULL ORDER BY place`,
    [experimentId],
  )
}

export async function findCall(
  queries: Queries,
  experimentId: bigint,
  id: string,
): Promise<ExperimentCall | undefined> {
  return await queries.row<ExperimentCall>(
    `SELECT ${callColumns} FROM experiment_calls WHERE experiment_id = $1 AND id = $2`,
    [experimentId, id],
  )
}

type CallEnd = { result: string | null; error: string | null; nowMs: number }

/** Finishes a pending call; false when there is none. */
export async function finishCall(
  queries: Queries,
  experimentId: bigint,
  id: string,
  { result, error, nowMs }: CallEnd,
): Promise<boolean> {
  const row = await queries.row(
    `UPDATE experiment_calls SET result = $3, error = $4, finished_at_ms = $5
     WHERE experiment_id = $1 AND id = $2 AND finished_at_ms IS NULL RETURNING id`,
    [experimentId, id, result, error, nowMs],
  )
  return row !== undefined
}
