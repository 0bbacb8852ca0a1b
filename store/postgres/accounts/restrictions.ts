import type { Queries } from '../database.ts'
import { isWithheld } from './visibility.ts'

/** How to find the workspace of each kind of reference. The reference is `$2`. */
const places = {
  workspaceName: 'workspaces w WHERE w.name = $2',
  projectId: 'projects p JOIN workspaces w ON w.id = p.workspace_id WHERE p.id = $2',
  deletedProjectId: 'projects p JOIN workspaces w ON w.id = p.deleted_from WHERE p.id = $2',
  experimentKey: `experiments e JOIN projects p ON p.id = e.project_id JOIN workspaces w ON w.id = p.workspace_id
    WHERE e.key = $2 AND e.deleted_at IS NULL`,
  experimentModelId: `experiment_models m JOIN experiments e ON e.id = m.experiment_id
    JOIN projects p ON p.id = e.project_id JOIN workspaces w ON w.id = p.workspace_id
    WHERE m.id = $2 AND e.deleted_at IS NULL`,
  artifactId: 'artifacts a JOIN workspaces w ON w.id = a.workspace_id WHERE a.id = $2',
  artifactVersionId: `artifact_versions v JOIN artifacts a ON a.id = v.artifact_id
    JOIN workspaces w ON w.id = a.workspace_id WHERE v.id = $2 AND v.deleted_at IS NULL`,
  panelId: 'panels n JOIN workspaces w ON w.id = n.workspace_id WHERE n.id = $2',
  registryModelId: 'registry_models m JOIN workspaces w ON w.id = m.workspace_id WHERE m.id = $2',
  registryVersionId: `registry_versions v JOIN registry_models m ON m.id = v.model_id
    JOIN workspaces w ON w.id = m.workspace_id WHERE v.id = $2`,
}

export type Place = { kind: keyof typeof places; value: string }

/** True if the reference is in a workspace of the organization that this restricted service account, or key, may not use. */
export async function isPlaceWithheld(queries: Queries, viewerId: string, { kind, value }: Place): Promise<boolean> {
  const row = await queries.row(`SELECT 1 FROM ${places[kind]} AND ${isWithheld('w')}`, [viewerId, value])
  return row !== undefined
}
