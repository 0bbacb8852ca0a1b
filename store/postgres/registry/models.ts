import { mayReadOfWorkspace, mayUse, mayWrite, type Viewer } from '../accounts/visibility.ts'
import type { Queries } from '../database.ts'

export type RegistryModel = {
  id: string
  workspaceId: string
  workspaceName: string
  name: string
  description: string
  isPublic: boolean
  userName: string
  createdAtMs: bigint
  updatedAtMs: bigint
  numberOfVersions: number
  /** Whether the caller may change it, or only read it. */
  isWritable: boolean
  /** Whether the caller has a role in the workspace. */
  isMember: boolean
}

const lockedColumns = `m.id, m.workspace_id AS "workspaceId", w.name AS "workspaceName", m.name, m.description,
  m.is_public AS "isPublic", ${mayWrite('w')} AS "isWritable", ${mayUse('w')} AS "isMember"`

export const modelColumns = `${lockedColumns}, u.user_name AS "userName", m.created_at_ms AS "createdAtMs",
  m.updated_at_ms AS "updatedAtMs",
  (SELECT count(*)::int FROM registry_versions v WHERE v.model_id = m.id) AS "numberOfVersions"`

const visibleModels = `FROM registry_models m JOIN workspaces w ON w.id = m.workspace_id JOIN users u ON u.id = m.user_id
  WHERE ${mayReadOfWorkspace('m', 'w')}`

/** The values of `$1` and `$2`: share codes do not apply here. */
const toValues = ({ viewerId, organizationId }: Viewer) => [viewerId, organizationId]

/** The registered models of a workspace that the viewer may see, by name. */
export async function listRegistryModels(
  queries: Queries,
  viewer: Viewer,
  workspaceName: string,
): Promise<RegistryModel[]> {
  return await queries.rows<RegistryModel>(
    `SELECT ${modelColumns} ${visibleModels} AND w.name = $3 AND w.organization_id = $2 ORDER BY m.name`,
    [...toValues(viewer), workspaceName],
  )
}

type ModelName = { workspaceName: string; modelName: string }

/** A registered model that the viewer may see; absent and foreign look the same. */
export async function findRegistryModel(
  queries: Queries,
  viewer: Viewer,
  { workspaceName, modelName }: ModelName,
): Promise<RegistryModel | undefined> {
  return await queries.row<RegistryModel>(`SELECT ${modelColumns} ${visibleModels} AND w.name = $3 AND m.name = $4`, [
    ...toValues(viewer),
    workspaceName,
    modelName,
  ])
}

/** How a caller refers to the model to change: by name, by id, or by one of its versions. */
export type RegistryReference = ModelName | { modelId: string } | { versionId: string }

/** The fields that a change needs of its model. */
export type LockedModel = Pick<
  RegistryModel,
  'id' | 'workspaceId' | 'workspaceName' | 'name' | 'description' | 'isPublic' | 'isWritable' | 'isMember'
>

/**
 * A registered model that the viewer may see, locked until the transaction ends. This serializes the changes of a model and
 * of its versions.
 */
export async function lockRegistryModel(
  queries: Queries,
  viewer: Viewer,
  reference: RegistryReference,
): Promise<LockedModel | undefined> {
  const [condition, values] =
    'modelId' in reference
      ? ['m.id = $3', [reference.modelId]]
      : 'versionId' in reference
        ? ['m.id = (SELECT v.model_id FROM registry_versions v WHERE v.id = $3)', [reference.versionId]]
        : ['w.name = $3 AND m.name = $4', [reference.workspaceName, reference.modelName]]
  return await queries.row<LockedModel>(
    `SELECT ${lockedColumns} FROM registry_models m JOIN workspaces w ON w.id = m.workspace_id
     WHERE ${mayReadOfWorkspace('m', 'w')} AND ${condition} FOR UPDATE OF m`,
    [...toValues(viewer), ...values],
  )
}

type NewModel = {
  workspaceId: string
  userId: string
  name: string
  description: string
  isPublic: boolean
  nowMs: number
}

/** Creates a model without versions. Fails with a unique violation when the workspace has one of this name. */
export async function insertRegistryModel(queries: Queries, model: NewModel): Promise<string> {
  const row = await queries.row<{ id: string }>(
    `INSERT INTO registry_models (workspace_id, user_id, name, description, is_public, created_at_ms, updated_at_ms)
     VALUES ($1, $2, $3, $4, $5, $6, $6) RETURNING id`,
    [model.workspaceId, model.userId, model.name, model.description, model.isPublic, model.nowMs],
  )
  return (row as { id: string }).id
}

type ModelFields = Pick<RegistryModel, 'name' | 'description' | 'isPublic'>

/** Serializes the renames of a workspace, or else two that swap names deadlock. */
const namesLock = 7392008

/** Fails with a unique violation when the workspace has another model of this name. */
export async function updateRegistryModel(
  queries: Queries,
  { id: modelId, workspaceId, name }: LockedModel,
  fields: ModelFields,
): Promise<void> {
  if (fields.name !== name) {
    await queries.row('SELECT pg_advisory_xact_lock($1, hashtext($2))', [namesLock, workspaceId])
  }
  await queries.row('UPDATE registry_models SET name = $2, description = $3, is_public = $4 WHERE id = $1', [
    modelId,
    fields.name,
    fields.description,
    fields.isPublic,
  ])
}

/** Stores when a model, or one of its versions, was last changed. */
export async function touchRegistryModel(queries: Queries, modelId: string, nowMs: number): Promise<void> {
  await queries.row('UPDATE registry_models SET updated_at_ms = $2 WHERE id = $1', [modelId, nowMs])
}

/** Deletes a model with its versions. The objects of their files are deleted later. */
export async function deleteRegistryModel(queries: Queries, modelId: string): Promise<void> {
  await queries.row('DELETE FROM registry_models WHERE id = $1', [modelId])
}

export async function findRegistryNotes(queries: Queries, modelId: string): Promise<string> {
  const row = await queries.row<{ notes: string }>('SELECT notes FROM registry_models WHERE id = $1', [modelId])
  return row?.notes ?? ''
}

export async function updateRegistryNotes(queries: Queries, modelId: string, notes: string): Promise<void> {
  await queries.row('UPDATE registry_models SET notes = $2 WHERE id = $1', [modelId, notes])
}

/** Which of some names a workspace has registered models of. */
export async function listRegisteredNames(
  queries: Queries,
  { workspaceId, names }: { workspaceId: string; names: string[] },
): Promise<Set<string>> {
  const rows = await queries.rows<{ name: string }>(
    'SELECT name FROM registry_models WHERE workspace_id = $1 AND name = ANY($2)',
    [workspaceId, names],
  )
  return new Set(rows.map((it) => it.name))
}
