import type { Queries } from './database.ts'

export type Project = {
  projectId: string
  projectName: string
  ownerUserName: string
  projectDescription: string
  workspaceName: string
  numberOfExperiments: number
  lastUpdated: number
  isPublic: boolean
}

const projectColumns = `p.id AS "projectId", p.name AS "projectName", o.user_name AS "ownerUserName",
  p.description AS "projectDescription", w.name AS "workspaceName", p.is_public AS "isPublic",
  (SELECT count(*)::int FROM experiments e WHERE e.project_id = p.id) AS "numberOfExperiments",
  greatest(extract(epoch FROM p.updated_at) * 1000,
    (SELECT max(e.active_at_ms) FROM experiments e WHERE e.project_id = p.id))::float8 AS "lastUpdated"`

const visibleProjects = `FROM projects p JOIN users o ON o.id = p.owner_id JOIN workspaces w ON w.id = p.workspace_id
  JOIN workspace_members m ON m.workspace_id = w.id AND m.user_id = $1`

type NewProject = { workspaceId: string; userId: string; name: string; description: string; isPublic: boolean }

/** Makes a project. Fails with a unique violation when the workspace has one of this name. */
export async function insertProject(queries: Queries, project: NewProject): Promise<{ id: string }> {
  const row = await queries.row<{ id: string }>(
    `INSERT INTO projects (workspace_id, owner_id, name, description, is_public) VALUES ($1, $2, $3, $4, $5) RETURNING id`,
    [project.workspaceId, project.userId, project.name, project.description, project.isPublic],
  )
  return row as { id: string }
}

/** The id of a workspace's project of this name, which is made when it is not there. */
export async function ensureProject(
  queries: Queries,
  project: { workspaceId: string; userId: string; name: string },
): Promise<string> {
  const row = await queries.row<{ id: string }>(
    `INSERT INTO projects (workspace_id, owner_id, name) VALUES ($1, $2, $3)
     ON CONFLICT (workspace_id, name) DO UPDATE SET name = excluded.name RETURNING id`,
    [project.workspaceId, project.userId, project.name],
  )
  return (row as { id: string }).id
}

/** The projects of a workspace, by name. */
export async function listProjects(queries: Queries, userId: string, workspaceName: string): Promise<Project[]> {
  return await queries.rows<Project>(`SELECT ${projectColumns} ${visibleProjects} WHERE w.name = $2 ORDER BY p.name`, [
    userId,
    workspaceName,
  ])
}

/** How a caller names a project: by its id, or by its workspace and its own name. */
export type ProjectReference = { projectId: string } | { workspaceName: string; projectName: string }

/** A project that the user may see; absent and foreign look the same. */
export async function findProject(
  queries: Queries,
  userId: string,
  reference: ProjectReference,
): Promise<Project | undefined> {
  const [condition, values] =
    'projectId' in reference
      ? ['p.id = $2', [reference.projectId]]
      : ['w.name = $2 AND p.name = $3', [reference.workspaceName, reference.projectName]]
  return await queries.row<Project>(`SELECT ${projectColumns} ${visibleProjects} WHERE ${condition}`, [
    userId,
    ...values,
  ])
}
