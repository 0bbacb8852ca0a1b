import type { Queries } from '../database.ts'

/** A data set that is a reference for a model. An empty `modelVersion` means all versions. */
export type ReferenceSet = { dataSetId: bigint; dataSetName: string; modelVersion: string; uploadedAtMs: bigint }

/** Stores that a data set is a reference for a model. A repetition updates only the time. */
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

/** The reference data sets of a model, the last uploaded one first. */
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
