import { mayReadProject, toViewerValues, type Viewer } from '../accounts/visibility.ts'
import type { Queries } from '../database.ts'

/** Where a view is shown: the pages of a project, or the charts of an experiment. */
export type ViewKind = 'dashboard' | 'chart'

export type View = {
  id: string
  projectId: string
  experimentKey: string | null
  kind: ViewKind
  name: string
  userName: string
  /** JSON text of an object. */
  content: string
  /** Grows with each save, so that it also tells one version of the view from another. */
  updatedAtMs: bigint
  /** Whether pages of its project open with it. */
  isDefault: boolean
}

/** What a view belongs to: an experiment, or else a project. */
type ViewOwner = { projectId: string; experimentId: bigint | undefined }

type ViewPage = ViewOwner & {
  kind: ViewKind
  /** Also those of the other projects of the workspace that the viewer may read; for a project, without their experiments. */
  ofWorkspace: boolean
  /** Only the view of this id. */
  id?: string | undefined
}

const viewColumns = `v.id, p.id AS "projectId", e.key AS "experimentKey", v.kind, v.name, u.user_name AS "userName",
  v.content, v.updated_at_ms AS "updatedAtMs", EXISTS (SELECT 1 FROM project_default_views d
    WHERE d.project_id = p.id AND d.template_id = v.id) AS "isDefault"`

const views = `FROM views v JOIN users u ON u.id = v.user_id LEFT JOIN experiments e ON e.id = v.experiment_id
  JOIN projects p ON p.id = coalesce(v.project_id, e.project_id) JOIN workspaces w ON w.id = p.workspace_id`

/** The views of a project or experiment, which the viewer must be allowed to read, by name. */
export async function listViews(queries: Queries, viewer: Viewer, page: ViewPage): Promise<View[]> {
  return await queries.rows<View>(
    `SELECT ${viewColumns} ${views} WHERE v.kind = $6 AND (
       CASE WHEN $5::bigint IS NULL THEN v.project_id = $4 ELSE v.experiment_id = $5 END
       OR ($7 AND p.id <> $4 AND p.workspace_id = (SELECT workspace_id FROM projects WHERE id = $4)
         AND (v.experiment_id IS NULL OR ($5 IS NOT NULL AND e.deleted_at IS NULL)) AND ${mayReadProject('p', 'w')}))
       AND ($8::text IS NULL OR v.id = $8)
     ORDER BY v.name, v.id`,
    [
      ...toViewerValues(viewer),
      page.projectId,
      page.experimentId ?? null,
      page.kind,
      page.ofWorkspace,
      page.id ?? null,
    ],
  )
}

export async function countViews(queries: Queries, { projectId, experimentId }: ViewOwner): Promise<number> {
  const row = await queries.row<{ count: number }>(
    `SELECT count(*)::int AS count FROM views
     WHERE CASE WHEN $2::bigint IS NULL THEN project_id = $1 ELSE experiment_id = $2 END`,
    [projectId, experimentId ?? null],
  )
  return row?.count ?? 0
}

type GivenView = ViewOwner & {
  kind: ViewKind
  name: string
  userId: string
  content: string
  nowMs: number
}

/** Adds a view. Undefined when the project has been deleted meanwhile. */
export async function insertView(queries: Queries, view: GivenView): Promise<View | undefined> {
  const row = await queries.row<{ id: string }>(
    `INSERT INTO views (project_id, experiment_id, kind, name, user_id, content, updated_at_ms)
     SELECT CASE WHEN $2::bigint IS NULL THEN id END, $2, $3, $4, $5, $6, $7 FROM projects
     WHERE id = $1 AND workspace_id IS NOT NULL FOR KEY SHARE
     RETURNING id`,
    [view.projectId, view.experimentId ?? null, view.kind, view.name, view.userId, view.content, view.nowMs],
  )
  return row && (await findView(queries, row.id))
}

/** A condition on a view `v`: it is one of the project `$2`, or of an experiment in it. */
const ofProject = `(v.project_id = $2 OR v.experiment_id IN (SELECT id FROM experiments WHERE project_id = $2))`

/**
 * Replaces the name and content of a view; with `ifUpdatedAtMs` only when it is still as it was saved then.
 *
 * @returns the view; or why it was not replaced: its project has none of this id and kind, or it was saved since
 */
export async function updateView(
  queries: Queries,
  id: string,
  view: GivenView & { ifUpdatedAtMs: bigint | number | undefined },
): Promise<View | 'absent' | 'saved since'> {
  const row = await queries.row<{ id: string }>(
    `UPDATE views v SET name = $4, content = $5, updated_at_ms = greatest($6, v.updated_at_ms + 1)
     WHERE v.id = $1 AND v.kind = $3 AND ${ofProject} AND ($7::bigint IS NULL OR v.updated_at_ms = $7) RETURNING v.id`,
    [id, view.projectId, view.kind, view.name, view.content, view.nowMs, view.ifUpdatedAtMs ?? null],
  )
  if (row) return (await findView(queries, row.id)) ?? 'absent'
  const isThere = await queries.row(`SELECT FROM views v WHERE v.id = $1 AND v.kind = $3 AND ${ofProject}`, [
    id,
    view.projectId,
    view.kind,
  ])
  return isThere ? 'saved since' : 'absent'
}

/** Deletes a view of a project, or of an experiment in it. False when there is none of this id. */
export async function deleteView(queries: Queries, projectId: string, id: string): Promise<boolean> {
  const row = await queries.row(`DELETE FROM views v WHERE v.id = $1 AND ${ofProject} RETURNING v.id`, [id, projectId])
  return row !== undefined
}

async function findView(queries: Queries, id: string): Promise<View | undefined> {
  return await queries.row<View>(`SELECT ${viewColumns} ${views} WHERE v.id = $1`, [id])
}
