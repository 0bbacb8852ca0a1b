import type { Queries } from '../database.ts'

/** Of which windows: those of a model, or of one of its versions, compared with one reference. */
export type OfWindows = { modelId: bigint; dataSetId: bigint; version: string | undefined }

export type StoredWindow = {
  fromMs: number
  toMs: number
  /** What it was made of. */
  madeOf: string
  events: number
  /** JSON. */
  features: string
}

const toVersion = (version: string | undefined) => (version === undefined ? '' : `=${version}`)

/** The stored windows of one length that begin within a time; some may be made of something that is gone. */
export async function listDriftWindows(
  queries: Queries,
  { modelId, dataSetId, version }: OfWindows,
  { from, to, intervalMs }: { from: number; to: number; intervalMs: number },
): Promise<StoredWindow[]> {
  return await queries.rows<StoredWindow>(
    `SELECT from_ms::float8 AS "fromMs", to_ms::float8 AS "toMs", made_of AS "madeOf", events::float8 AS events, features
     FROM drift_windows WHERE model_id = $1 AND data_set_id = $2 AND version = $3
       AND from_ms >= $4 AND from_ms < $5 AND to_ms - from_ms = $6`,
    [modelId, dataSetId, toVersion(version), from, to, intervalMs],
  )
}

/** Stores windows, each in the place of the one before. Those of deleted models are skipped. */
export async function upsertDriftWindows(
  queries: Queries,
  { modelId, dataSetId, version }: OfWindows,
  windows: StoredWindow[],
): Promise<void> {
  if (windows.length === 0) return
  await queries.row(
    `INSERT INTO drift_windows AS d (model_id, data_set_id, version, from_ms, to_ms, made_of, events, features, made_at_ms)
     SELECT m.id, r.id, $3, w.* , $9::bigint
     FROM unnest($4::bigint[], $5::bigint[], $6::text[], $7::bigint[], $8::text[]) AS w(from_ms, to_ms, made_of, events, features)
     JOIN monitored_models m ON m.id = $1 JOIN monitored_models r ON r.id = $2 ORDER BY w.from_ms
     ON CONFLICT (model_id, data_set_id, version, from_ms, to_ms) DO UPDATE SET made_of = excluded.made_of,
       events = excluded.events, features = excluded.features, made_at_ms = excluded.made_at_ms`,
    [
      ...[modelId, dataSetId, toVersion(version)],
      windows.map((it) => it.fromMs),
      windows.map((it) => it.toMs),
      windows.map((it) => it.madeOf),
      windows.map((it) => it.events),
      windows.map((it) => it.features),
      Date.now(),
    ],
  )
}

const keptMs = 30 * 86_400_000

/** Deletes windows that were stored long ago: those that are still looked at are stored again. */
export async function deleteOldDriftWindows(queries: Queries, nowMs: number): Promise<void> {
  await queries.row('DELETE FROM drift_windows WHERE made_at_ms < $1', [nowMs - keptMs])
}
