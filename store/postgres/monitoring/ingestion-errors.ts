import type { Queries } from '../database.ts'

/** The same error in events of one model on one day (UTC): its count and one sample. */
export type IngestionError = {
  workspaceId: string
  /** The name as it was sent; empty if there was none, or if the errors were of too many kinds to list each. */
  modelName: string
  call: string
  fault: string
  /** The prediction id of one such event, or its index in the request. */
  sample: string
  count: number
  firstAtMs: number
  lastAtMs: number
}

/** Adds errors in one statement. Those of deleted workspaces are skipped. */
export async function addIngestionErrors(queries: Queries, errors: IngestionError[]): Promise<void> {
  await queries.row(
    `INSERT INTO ingestion_errors AS e
       (workspace_id, day, model_name, fault_hash, call, fault, sample, count, first_at_ms, last_at_ms)
     SELECT f.workspace_id, (to_timestamp(f.last_at_ms / 1000.0) AT TIME ZONE 'UTC')::date, f.model_name,
       md5(f.call || ' ' || f.fault)::uuid, f.call, f.fault, f.sample, f.count, f.first_at_ms, f.last_at_ms
     FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::text[], $6::bigint[], $7::bigint[], $8::bigint[])
       AS f(workspace_id, model_name, call, fault, sample, count, first_at_ms, last_at_ms)
     JOIN workspaces w ON w.id = f.workspace_id ORDER BY 1, 2, 3, 4
     ON CONFLICT (workspace_id, day, model_name, fault_hash) DO UPDATE SET count = e.count + excluded.count,
       sample = excluded.sample, last_at_ms = greatest(e.last_at_ms, excluded.last_at_ms)`,
    [
      errors.map((it) => it.workspaceId),
      errors.map((it) => it.modelName),
      errors.map((it) => it.call),
      errors.map((it) => it.fault),
      errors.map((it) => it.sample),
      errors.map((it) => it.count),
      errors.map((it) => it.firstAtMs),
      errors.map((it) => it.lastAtMs),
    ],
  )
}

export type ListedError = Omit<IngestionError, 'workspaceId' | 'count' | 'firstAtMs' | 'lastAtMs'> & {
  day: string
  count: bigint
  firstAtMs: bigint
  lastAtMs: bigint
}

/** The errors in the events of a workspace, or of one of its models, newest first. */
export async function listIngestionErrors(
  queries: Queries,
  { workspaceId, modelName, limit }: { workspaceId: string; modelName: string | undefined; limit: number },
): Promise<ListedError[]> {
  return await queries.rows<ListedError>(
    `SELECT model_name AS "modelName", to_char(day, 'YYYY-MM-DD') AS day, call, fault, sample, count,
       first_at_ms AS "firstAtMs", last_at_ms AS "lastAtMs"
     FROM ingestion_errors WHERE workspace_id = $1 AND ($2::text IS NULL OR model_name = $2)
     ORDER BY last_at_ms DESC, fault LIMIT $3`,
    [workspaceId, modelName ?? null, limit],
  )
}

/** Deletes errors that are older than `keptDays`. */
export async function deleteIngestionErrors(queries: Queries, keptDays: number): Promise<void> {
  await queries.row(`DELETE FROM ingestion_errors WHERE day < (now() AT TIME ZONE 'UTC')::date - $1::integer`, [
    keptDays,
  ])
}
