import { isShownIn, mayReadExperiment, toViewerValues, type Viewer } from '../accounts/visibility.ts'
import type { Queries } from '../database.ts'

/** An experiment, as the rows of an export name it. */
export type ExportedRun = { id: bigint; key: string; name: string; project: string }

const columns = 'e.id, e.key, e.name, p.name AS project'
const withPlace = `FROM experiments e JOIN projects p ON p.id = e.project_id JOIN workspaces w ON w.id = p.workspace_id`

/**
 * The experiments of a project by id, those symlinked into it included, archived or not or, when undefined, both. Without a
 * check of permissions: the caller must have made it.
 */
export async function listRunsOfProject(
  queries: Queries,
  projectId: string,
  archived: boolean | undefined,
): Promise<ExportedRun[]> {
  return await queries.rows<ExportedRun>(
    `SELECT ${columns} ${withPlace}
     WHERE ${isShownIn('e', '$1')} AND e.deleted_at IS NULL AND ($2::boolean IS NULL OR e.archived = $2) ORDER BY e.id`,
    [projectId, archived ?? null],
  )
}

/** Those of the experiments that the viewer may see, by id. */
export async function listRunsByKey(queries: Queries, viewer: Viewer, keys: string[]): Promise<ExportedRun[]> {
  return await queries.rows<ExportedRun>(
    `SELECT ${columns} ${withPlace}
     WHERE e.key = ANY($4) AND e.deleted_at IS NULL AND ${mayReadExperiment('e', 'p', 'w')} ORDER BY e.id`,
    [...toViewerValues(viewer), keys],
  )
}
