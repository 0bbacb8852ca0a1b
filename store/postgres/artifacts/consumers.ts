import { mayReadExperiment, toViewerValues, type Viewer } from '../accounts/visibility.ts'
import type { Queries } from '../database.ts'

/** Records that an experiment uses a version. */
export async function insertArtifactConsumer(queries: Queries, versionId: string, experimentId: bigint): Promise<void> {
  await queries.row(
    'INSERT INTO artifact_consumers (artifact_version_id, experiment_id) VALUES ($1, $2) ON CONFLICT DO NOTHING',
    [versionId, experimentId],
  )
}

export type ArtifactConsumer = { experimentKey: string; firstAtMs: bigint }

/** The experiments that use a version and that the viewer may see, in the order of their first use. */
export async function listArtifactConsumers(
  queries: Queries,
  viewer: Viewer,
  versionId: string,
): Promise<ArtifactConsumer[]> {
  return await queries.rows<ArtifactConsumer>(
    `SELECT e.key AS "experimentKey", (extract(epoch FROM c.first_at) * 1000)::bigint AS "firstAtMs"
     FROM artifact_consumers c JOIN experiments e ON e.id = c.experiment_id JOIN projects p ON p.id = e.project_id
       JOIN workspaces w ON w.id = p.workspace_id
     WHERE c.artifact_version_id = $4 AND e.deleted_at IS NULL AND ${mayReadExperiment('e', 'p', 'w')}
     ORDER BY c.first_at, e.id`,
    [...toViewerValues(viewer), versionId],
  )
}
