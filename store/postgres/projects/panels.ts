import { mayUse, mayWrite } from '../accounts/visibility.ts'
import type { Database, Queries } from '../database.ts'

/** The metadata of a panel. Its bytes are in the object store. */
export type Panel = {
  id: string
  workspaceId: string
  fileName: string
  size: bigint
  sha256: string
  objectKey: string
  userName: string
  createdAtMs: bigint
  updatedAtMs: bigint
}

/** A panel, and whether the caller may change it. */
export type FoundPanel = Panel & { workspaceName: string; isWritable: boolean }

const panelColumns = `p.id, p.workspace_id AS "workspaceId", p.file_name AS "fileName", p.size, p.sha256, p.object_key AS "objectKey",
  u.user_name AS "userName", p.created_at_ms AS "createdAtMs", p.updated_at_ms AS "updatedAtMs"`

export type PanelContent = {
  userId: string
  fileName: string
  size: number
  sha256: string
  objectKey: string
  nowMs: number
}

/**
 * Inserts a panel. Its object must have been announced by `insertOrphanedObject`.
 *
 * @returns its id; undefined, and nothing is stored, when the workspace has `panelsMax` panels
 */
export async function insertPanel(
  database: Database,
  workspaceId: string,
  content: PanelContent,
  panelsMax: number,
): Promise<string | undefined> {
  return await database.transaction(async (queries) => {
    // Serializes the panels of a workspace, so that the count is exact.
    await queries.row('SELECT 1 FROM workspaces WHERE id = $1 FOR NO KEY UPDATE', [workspaceId])
    const there = await queries.row<{ count: bigint }>('SELECT count(*) FROM panels WHERE workspace_id = $1', [
      workspaceId,
    ])
    if (Number(there?.count) >= panelsMax) return undefined
    await takeObject(queries, content.objectKey)
    const row = await queries.row<{ id: string }>(
      `INSERT INTO panels (workspace_id, user_id, file_name, size, sha256, object_key, created_at_ms, updated_at_ms)
       VALUES ($1, $2, $3, $4, $5, $6, $7, $7) RETURNING id`,
      [workspaceId, ...toValues(content)],
    )
    return row?.id
  })
}

/**
 * Replaces the content of a panel; the previous object becomes orphaned.
 *
 * @returns false, and nothing is stored, when the workspace has no such panel
 */
export async function updatePanel(
  database: Database,
  workspaceId: string,
  id: string,
  content: PanelContent,
): Promise<boolean> {
  return await database.transaction(async (queries) => {
    const isThere = await queries.row('SELECT 1 FROM panels WHERE workspace_id = $1 AND id = $2 FOR UPDATE', [
      workspaceId,
      id,
    ])
    if (!isThere) return false
    await takeObject(queries, content.objectKey)
    await queries.row(
      `UPDATE panels SET user_id = $2, file_name = $3, size = $4, sha256 = $5, object_key = $6, updated_at_ms = $7
       WHERE id = $1`,
      [id, ...toValues(content)],
    )
    return true
  })
}

const toValues = ({ userId, fileName, size, sha256, objectKey, nowMs }: PanelContent) => [
  userId,
  fileName,
  size,
  sha256,
  objectKey,
  nowMs,
]

/** The panel owns the object from now on. */
async function takeObject(queries: Queries, objectKey: string) {
  const announced = await queries.row('DELETE FROM loose_objects WHERE object_key = $1 RETURNING object_key', [
    objectKey,
  ])
  if (!announced) throw new Error(`the object ${objectKey} was not announced, or was freed again`)
}

/** The panels of a workspace in upload order. */
export async function listPanels(queries: Queries, workspaceId: string): Promise<Panel[]> {
  return await queries.rows<Panel>(
    `SELECT ${panelColumns} FROM panels p JOIN users u ON u.id = p.user_id WHERE p.workspace_id = $1 ORDER BY p.place`,
    [workspaceId],
  )
}

/** A panel of a workspace that the caller may read; absent and foreign look the same. */
export async function findPanel(queries: Queries, viewerId: string, id: string): Promise<FoundPanel | undefined> {
  return await queries.row<FoundPanel>(
    `SELECT ${panelColumns}, w.name AS "workspaceName", ${mayWrite('w')} AS "isWritable"
     FROM panels p JOIN users u ON u.id = p.user_id JOIN workspaces w ON w.id = p.workspace_id
     WHERE p.id = $2 AND ${mayUse('w')}`,
    [viewerId, id],
  )
}

/** True when there was such a panel that the caller may delete. Its object is deleted later. */
export async function deletePanel(queries: Queries, viewerId: string, id: string): Promise<boolean> {
  const row = await queries.row(
    `DELETE FROM panels p USING workspaces w WHERE w.id = p.workspace_id AND p.id = $2 AND ${mayWrite('w')} RETURNING p.id`,
    [viewerId, id],
  )
  return row !== undefined
}
