import type { Queries } from '../database.ts'

/** A data set that was uploaded as a reference for a model; `modelVersion` is empty when it is for all of them. */
export type ReferenceSet = { dataSetId: bigint; dataSetName: string; modelVersion: string; uploadedAtMs: bigint }

/** Remembers what a data set is a reference for; told again, only the time changes. */
export async function upsertReferenceSet(
  queries: Queries,
  set: { dataSetId: bigint; modelName: string; modelVersion: string; uploadedAtMs: number },
): Promise<void> {
  await queries.row(
    `INSERT INTO reference_sets (data_set_id, model_name, model_version, uploaded_at_ms) VALUES ($1, $2, $3, $4)
     ON CONFLICT (data_set_id, model_name, model_version) DO UPDATE SET uploaded_at_ms = excluded.uploaded_at_ms`,
    [set.dataSetId, set.modelName, set.modelVersion, set.uploadedAtMs],
  )
}

/** The data sets that are references for a model, the last uploaded one first. */
export async function listReferenceSets(
  queries: Queries,
  model: { workspaceId: string; modelName: string },
): Promise<ReferenceSet[]> {
  return await queries.rows<ReferenceSet>(
    `SELECT r.data_set_id AS "dataSetId", d.name AS "dataSetName", r.model_version AS "modelVersion",
       r.uploaded_at_ms AS "uploadedAtMs"
     FROM reference_sets r JOIN monitored_models d ON d.id = r.data_set_id
     WHERE d.workspace_id = $1 AND r.model_name = $2 ORDER BY r.uploaded_at_ms DESC, r.data_set_id DESC`,
    [model.workspaceId, model.modelName],
  )
}
