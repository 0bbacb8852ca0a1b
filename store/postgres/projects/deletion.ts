import { hasProject, mayWriteProject } from '../accounts/visibility.ts'
import type { Database, Queries } from '../database.ts'
import { ensureProject } from './projects.ts'

/**
 * A deleted project is in no workspace, so no other query finds it and its name is free. It keeps its notes, views, links and
 * panels. Its experiments move to the leftovers project, as clients expect; which they were is kept, and they come back with
 * the project. An experiment that somebody moved elsewhere meanwhile stays there.
 */

/** The project that receives the experiments of deleted projects. It is only emptied. */
const leftoversName = 'Uncategorized Experiments'

type Deletion = { projectId: string; userId: string; deleteExperiments: boolean }

/** Deletes a project. Its experiments move to the leftovers project of the workspace: deleted too, or unchanged. */
export async function deleteProject(
  database: Database,
  { projectId, userId, deleteExperiments }: Deletion,
): Promise<void> {
  await database.transaction(async (queries) => {
    const project = await queries.row<{ workspaceId: string }>(
      'SELECT workspace_id AS "workspaceId" FROM projects WHERE id = $1 AND workspace_id IS NOT NULL FOR UPDATE',
      [projectId],
    )
    if (!project) return
    const { workspaceId } = project
    // `now()` is one time for all of the transaction: the project knows by it which experiments were deleted with it.
    if (deleteExperiments) {
      await queries.row('UPDATE experiments SET deleted_at = now() WHERE project_id = $1 AND deleted_at IS NULL', [
        projectId,
      ])
    }
    const first = await queries.row('SELECT 1 FROM experiments WHERE project_id = $1 LIMIT 1', [projectId])
    const leftoversId = first && (await ensureProject(queries, { workspaceId, userId, name: leftoversName }))
    if (leftoversId === projectId) {
      await queries.row('UPDATE projects SET deleted_at = now() WHERE id = $1', [projectId])
      return
    }
    if (leftoversId !== undefined) {
      await queries.row(
        `WITH moved AS (UPDATE experiments SET project_id = $2 WHERE project_id = $1 RETURNING id)
         INSERT INTO experiments_of_deleted_projects (experiment_id, project_id) SELECT id, $1 FROM moved
         ON CONFLICT (experiment_id) DO UPDATE SET project_id = excluded.project_id`,
        [projectId, leftoversId],
      )
    }
    await queries.row(
      'UPDATE projects SET deleted_at = now(), deleted_from = workspace_id, workspace_id = NULL WHERE id = $1',
      [projectId],
    )
  })
}

export type DeletedProject = {
  projectId: string
  projectName: string
  projectDescription: string
  /** Those that come back with it. */
  numberOfExperiments: number
  deletedAtMs: number
}

/** The deleted projects of a workspace, the last deleted first. */
export async function listDeletedProjects(queries: Queries, workspaceId: string): Promise<DeletedProject[]> {
  return await queries.rows<DeletedProject>(
    `SELECT p.id AS "projectId", p.name AS "projectName", p.description AS "projectDescription",
       (SELECT count(*)::int FROM experiments_of_deleted_projects d JOIN experiments e ON e.id = d.experiment_id
        WHERE d.project_id = p.id AND (e.deleted_at IS NULL OR e.deleted_at = p.deleted_at)) AS "numberOfExperiments",
       (extract(epoch FROM p.deleted_at) * 1000)::float8 AS "deletedAtMs"
     FROM projects p WHERE p.deleted_from = $1 AND p.workspace_id IS NULL ORDER BY p.deleted_at DESC, p.id`,
    [workspaceId],
  )
}

/** A deleted project that the caller may read, and whether it may undo that. */
export async function findDeletedProject(
  queries: Queries,
  viewerId: string | null,
  projectId: string,
): Promise<{ projectName: string; workspaceName: string; isWritable: boolean } | undefined> {
  return await queries.row(
    `SELECT p.name AS "projectName", w.name AS "workspaceName", ${mayWriteProject('p', 'w')} AS "isWritable"
     FROM projects p JOIN workspaces w ON w.id = coalesce(p.workspace_id, p.deleted_from)
     WHERE p.id = $2 AND p.deleted_at IS NOT NULL AND ${hasProject('p', 'w')}`,
    [viewerId, projectId],
  )
}

/**
 * Undoes the deletion of a project: it is in its workspace again, with the experiments that it had; those that were deleted with
 * it are restored. Fails with a unique violation when the workspace has another project of this name by now.
 *
 * @returns false when it is not deleted any more, or gone for good
 */
export async function restoreProject(database: Database, projectId: string, newName?: string): Promise<boolean> {
  return await database.transaction(async (queries) => {
    const deleted = await queries.row('SELECT 1 FROM projects WHERE id = $1 AND deleted_at IS NOT NULL FOR UPDATE', [
      projectId,
    ])
    if (!deleted) return false
    await queries.row(
      `UPDATE experiments e SET deleted_at = NULL FROM projects p WHERE p.id = $1 AND e.deleted_at = p.deleted_at
         AND (e.project_id = p.id
           OR e.id IN (SELECT experiment_id FROM experiments_of_deleted_projects WHERE project_id = p.id))`,
      [projectId],
    )
    await queries.row(
      `WITH back AS (DELETE FROM experiments_of_deleted_projects WHERE project_id = $1 RETURNING experiment_id)
       UPDATE experiments e SET project_id = $1 FROM back WHERE e.id = back.experiment_id`,
      [projectId],
    )
    await queries.row(
      `UPDATE projects SET workspace_id = coalesce(workspace_id, deleted_from), name = coalesce($2, name),
         deleted_at = NULL, deleted_from = NULL WHERE id = $1`,
      [projectId, newName ?? null],
    )
    return true
  })
}

/** Purges the projects that were deleted before this time (ms since the Unix epoch), with everything that belongs to them. */
export async function purgeDeletedProjects(queries: Queries, timeMs: number): Promise<void> {
  await queries.row(
    `DELETE FROM projects p WHERE p.workspace_id IS NULL AND p.deleted_at <= to_timestamp($1 / 1000.0)
       AND NOT EXISTS (SELECT 1 FROM experiments e WHERE e.project_id = p.id)`,
    [timeMs],
  )
}
