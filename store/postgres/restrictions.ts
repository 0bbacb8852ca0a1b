import type { Queries } from './database.ts'
import { isWithheld } from './visibility.ts'

/** What a caller asks for, by the names it uses. */
export type Place =
  | { workspaceName: string }
  | { projectId: string }
  | { workspaceName: string; projectName: string }
  | { experimentKey: string }

/** True when the place is in a workspace that is kept from this restricted service account, in its own organization. */
export async function isPlaceWithheld(queries: Queries, userId: string, place: Place): Promise<boolean> {
  const [from, value] =
    'workspaceName' in place
      ? ['workspaces w WHERE w.name = $2', place.workspaceName]
      : 'projectId' in place
        ? ['projects p JOIN workspaces w ON w.id = p.workspace_id WHERE p.id = $2', place.projectId]
        : [
            `experiments e JOIN projects p ON p.id = e.project_id JOIN workspaces w ON w.id = p.workspace_id
             WHERE e.key = $2 AND e.deleted_at IS NULL`,
            place.experimentKey,
          ]
  return (await queries.row(`SELECT 1 FROM ${from} AND ${isWithheld('w')}`, [userId, value])) !== undefined
}
