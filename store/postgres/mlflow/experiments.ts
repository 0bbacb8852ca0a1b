import { mayReadProject, mayWriteProject, toViewerValues, type Viewer } from '../accounts/visibility.ts'
import type { Queries } from '../database.ts'

/** A project as an experiment of MLflow. Times are ms since the Unix epoch. */
export type MlflowExperiment = {
  id: string
  name: string
  workspaceName: string
  artifactLocation: string | null
  createdAtMs: number
  updatedAtMs: number
  isDeleted: boolean
  isWritable: boolean
  tags: Record<string, string>
}

const columns = `p.id, p.name, w.name AS "workspaceName", p.artifact_location AS "artifactLocation",
  floor(extract(epoch FROM p.created_at) * 1000)::float8 AS "createdAtMs",
  floor(extract(epoch FROM p.updated_at) * 1000)::float8 AS "updatedAtMs",
  p.workspace_id IS NULL AS "isDeleted", ${mayWriteProject('p', 'w')} AS "isWritable",
  coalesce((SELECT json_object_agg(t.key, t.value) FROM project_tags t WHERE t.project_id = p.id), '{}') AS tags`

/** A deleted project is still in the workspace that it was deleted from. */
const visible = `FROM projects p JOIN workspaces w ON w.id = coalesce(p.workspace_id, p.deleted_from)
  WHERE ${mayReadProject('p', 'w')}`

/** A project that the viewer may see, deleted or not. */
export async function findMlflowExperiment(
  queries: Queries,
  viewer: Viewer,
  id: string,
): Promise<MlflowExperiment | undefined> {
  return await queries.row(
    `SELECT ${columns} ${visible} AND p.id = $4`,
    [...toViewerValues(viewer), id],
    'mlflow experiment by id',
  )
}

/** The project of a name, or else the one of this name that was deleted last. */
export async function findMlflowExperimentByName(
  queries: Queries,
  viewer: Viewer,
  { workspaceId, name }: { workspaceId: string; name: string },
): Promise<MlflowExperiment | undefined> {
  return await queries.row(
    `SELECT ${columns} ${visible} AND w.id = $4 AND p.name = $5
     ORDER BY p.workspace_id IS NULL, p.deleted_at DESC LIMIT 1`,
    [...toViewerValues(viewer), workspaceId, name],
    'mlflow experiment by name',
  )
}

/** All projects of a workspace that the viewer may see, deleted or not. */
export async function listMlflowExperiments(
  queries: Queries,
  viewer: Viewer,
  workspaceId: string,
): Promise<MlflowExperiment[]> {
  return await queries.rows(`SELECT ${columns} ${visible} AND w.id = $4`, [...toViewerValues(viewer), workspaceId])
}

export async function updateArtifactLocation(queries: Queries, projectId: string, location: string): Promise<void> {
  await queries.row('UPDATE projects SET artifact_location = $2 WHERE id = $1', [projectId, location])
}

/** Sets tags of a project; the last one of each key counts. */
export async function upsertProjectTags(
  queries: Queries,
  projectId: string,
  tags: { key: string; value: string }[],
): Promise<void> {
  for (const { key, value } of tags) {
    await queries.row(
      `WITH touched AS (UPDATE projects SET updated_at = now() WHERE id = $1)
       INSERT INTO project_tags (project_id, key, value) VALUES ($1, $2, $3)
       ON CONFLICT (project_id, key) DO UPDATE SET value = excluded.value`,
      [projectId, key, value],
    )
  }
}

/** False when there is no such tag. */
export async function deleteProjectTag(queries: Queries, projectId: string, key: string): Promise<boolean> {
  const row = await queries.row('DELETE FROM project_tags WHERE project_id = $1 AND key = $2 RETURNING key', [
    projectId,
    key,
  ])
  return row !== undefined
}

/** The datasets that runs of projects read, each with what its runs used it for. */
export async function listDatasetsOfProjects(
  queries: Queries,
  projectIds: string[],
  limit: number,
): Promise<{ projectId: string; name: string; digest: string; context: string | null }[]> {
  return await queries.rows(
    `SELECT DISTINCT e.project_id AS "projectId", d.name, d.digest, d.tags::json ->> 'mlflow.data.context' AS context
     FROM run_datasets d JOIN experiments e ON e.id = d.experiment_id
     WHERE e.project_id = ANY($1) AND e.deleted_at IS NULL ORDER BY 1, 2, 3, 4 LIMIT $2`,
    [projectIds, limit],
  )
}
