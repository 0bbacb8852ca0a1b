import { mayReadProject, mayWriteProject, toViewerValues, type Viewer } from '../accounts/visibility.ts'
import type { Queries } from '../database.ts'

export type Project = {
  projectId: string
  projectName: string
  ownerUserName: string
  projectDescription: string
  workspaceName: string
  numberOfExperiments: number
  lastUpdated: number
  isPublic: boolean
  archived: boolean
  /** Whether the caller may change it, or only read it. */
  isWritable: boolean
}

const projectColumns = `p.id AS "projectId", p.name AS "projectName", o.user_name AS "ownerUserName",
  p.description AS "projectDescription", w.name AS "workspaceName", p.is_public AS "isPublic", p.archived,
  ${mayWriteProject('p', 'w')} AS "isWritable",
  (SELECT count(*)::int FROM experiments e WHERE e.project_id = p.id AND e.deleted_at IS NULL) AS "numberOfExperiments",
  greatest(extract(epoch FROM p.updated_at) * 1000,
    (SELECT max(e.active_at_ms) FROM experiments e WHERE e.project_id = p.id))::float8 AS "lastUpdated"`

const visibleProjects = `FROM projects p JOIN users o ON o.id = p.owner_id JOIN workspaces w ON w.id = p.workspace_id
  WHERE ${mayReadProject('p', 'w')}`

type NewProject = { workspaceId: string; userId: string; name: string; description: string; isPublic: boolean }

/** Creates a project. Fails with a unique violation when the workspace has one of this name. */
export async function insertProject(queries: Queries, project: NewProject): Promise<{ id: string }> {
  const row = await queries.row<{ id: string }>(
    `INSERT INTO projects (workspace_id, owner_id, name, description, is_public) VALUES ($1, $2, $3, $4, $5) RETURNING id`,
    [project.workspaceId, project.userId, project.name, project.description, project.isPublic],
  )
  return row as { id: string }
}

/** The id of the project of this name; creates the project when the workspace has none. */
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

/** The projects of a workspace that the viewer may see, by name: all, or only those that are archived or not. */
export async function listProjects(
  queries: Queries,
  viewer: Viewer,
  { workspaceName, archived }: { workspaceName: string; archived: boolean | undefined },
): Promise<Project[]> {
  return await queries.rows<Project>(
    `SELECT ${projectColumns} ${visibleProjects} AND w.name = $4 AND w.organization_id = $2
       AND p.archived = coalesce($5, p.archived) ORDER BY p.name`,
    [...toViewerValues(viewer), workspaceName, archived ?? null],
  )
}

/** How a caller names a project: by its id, or by its workspace and its own name. */
export type ProjectReference = { projectId: string } | { workspaceName: string; projectName: string }

/** A project that the viewer may see; absent and foreign look the same. */
export async function findProject(
  queries: Queries,
  viewer: Viewer,
  reference: ProjectReference,
): Promise<Project | undefined> {
  const [condition, values, name] =
    'projectId' in reference
      ? ['p.id = $4', [reference.projectId], 'project by id']
      : ['w.name = $4 AND p.name = $5', [reference.workspaceName, reference.projectName], 'project by name']
  return await queries.row<Project>(
    `SELECT ${projectColumns} ${visibleProjects} AND ${condition}`,
    [...toViewerValues(viewer), ...values],
    name,
  )
}

type ProjectChanges = { name: string | undefined; description: string | undefined; isPublic: boolean | undefined }

/** Updates the given fields. Fails with a unique violation when the workspace has another project of this name. */
export async function updateProject(queries: Queries, projectId: string, changes: ProjectChanges): Promise<void> {
  await queries.row(
    `UPDATE projects SET name = coalesce($2, name), description = coalesce($3, description),
       is_public = coalesce($4, is_public), updated_at = now() WHERE id = $1`,
    [projectId, changes.name ?? null, changes.description ?? null, changes.isPublic ?? null],
  )
}

/** Archives a project or brings it back. It counts as no activity: the project keeps its place among others. */
export async function updateArchived(queries: Queries, projectId: string, archived: boolean): Promise<void> {
  await queries.row('UPDATE projects SET archived = $2 WHERE id = $1', [projectId, archived])
}

/** Gives a project to a member of its workspace. False when the workspace has no such member. */
export async function updateProjectOwner(queries: Queries, projectId: string, userName: string): Promise<boolean> {
  const row = await queries.row(
    `UPDATE projects p SET owner_id = u.id, updated_at = now() FROM users u
     JOIN workspace_members m ON m.user_id = u.id
     WHERE p.id = $1 AND m.workspace_id = p.workspace_id AND u.user_name = $2 RETURNING p.id`,
    [projectId, userName],
  )
  return row !== undefined
}

export async function findNotes(queries: Queries, projectId: string): Promise<string> {
  const row = await queries.row<{ notes: string }>('SELECT notes FROM projects WHERE id = $1', [projectId])
  return row?.notes ?? ''
}

export async function updateNotes(queries: Queries, projectId: string, notes: string): Promise<void> {
  await queries.row('UPDATE projects SET notes = $2, updated_at = now() WHERE id = $1', [projectId, notes])
}

export async function insertShareLink(queries: Queries, projectId: string, code: string): Promise<void> {
  await queries.row('INSERT INTO project_share_links (code, project_id) VALUES ($1, $2)', [code, projectId])
}

/** True when there was one. */
export async function deleteShareLink(queries: Queries, projectId: string, code: string): Promise<boolean> {
  const row = await queries.row('DELETE FROM project_share_links WHERE project_id = $1 AND code = $2 RETURNING code', [
    projectId,
    code,
  ])
  return row !== undefined
}

/** The share codes of a project, oldest first. */
export async function listShareLinks(queries: Queries, projectId: string): Promise<string[]> {
  const rows = await queries.rows<{ code: string }>(
    'SELECT code FROM project_share_links WHERE project_id = $1 ORDER BY created_at, code',
    [projectId],
  )
  return rows.map((it) => it.code)
}

/** The pages that have a default view. */
export type PageWithViews = 'experiment' | 'project'

export async function upsertDefaultView(
  queries: Queries,
  projectId: string,
  page: PageWithViews,
  templateId: string,
): Promise<void> {
  await queries.row(
    `INSERT INTO project_default_views (project_id, page, template_id) VALUES ($1, $2, $3)
     ON CONFLICT (project_id, page) DO UPDATE SET template_id = excluded.template_id`,
    [projectId, page, templateId],
  )
}

export async function listDefaultViews(
  queries: Queries,
  projectId: string,
): Promise<{ page: PageWithViews; templateId: string }[]> {
  return await queries.rows(
    'SELECT page, template_id AS "templateId" FROM project_default_views WHERE project_id = $1 ORDER BY page',
    [projectId],
  )
}
