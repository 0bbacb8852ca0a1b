import { mayReadExperiment, mayReadOfWorkspace, toViewerValues, type Viewer } from '../accounts/visibility.ts'
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

/** A version that an experiment made or used. */
export type LinkedVersion = {
  artifactId: string
  artifactName: string
  artifactType: string
  workspaceName: string
  artifactVersionId: string
  version: string
  state: 'OPEN' | 'CLOSED' | 'ERROR'
  /** Of the experiment that made it. */
  experimentKey: string
  direction: 'output' | 'input'
}

/** The versions that an experiment made, then those it used, as far as the viewer may see them, oldest first. */
export async function listLinkedVersions(
  queries: Queries,
  viewer: Viewer,
  experiment: { id: bigint; key: string },
): Promise<LinkedVersion[]> {
  return await queries.rows<LinkedVersion>(
    `SELECT a.id AS "artifactId", a.name AS "artifactName", a.type AS "artifactType", w.name AS "workspaceName",
       v.id AS "artifactVersionId", v.version, v.state, v.experiment_key AS "experimentKey", linked.direction
     FROM (SELECT id, 'output' AS direction, created_at_ms AS at FROM artifact_versions WHERE experiment_key = $3
       UNION ALL SELECT artifact_version_id, 'input', (extract(epoch FROM first_at) * 1000)::bigint
         FROM artifact_consumers WHERE experiment_id = $4) AS linked
     JOIN artifact_versions v ON v.id = linked.id JOIN artifacts a ON a.id = v.artifact_id
     JOIN workspaces w ON w.id = a.workspace_id
     WHERE v.deleted_at IS NULL AND ${mayReadOfWorkspace('a', 'w')}
     ORDER BY linked.direction DESC, linked.at, v.place`,
    [viewer.viewerId, viewer.organizationId, experiment.key, experiment.id],
  )
}
