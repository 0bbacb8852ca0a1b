import { nextPatch, parseSemver, toPrecedence } from '../../registry/semver.ts'
import { mayReadExperiment, mayReadOfWorkspace, mayWrite, toViewerValues, type Viewer } from '../accounts/visibility.ts'
import { type Asset, assetColumns, lockAssets, modelElement } from '../assets/assets.ts'
import type { Queries } from '../database.ts'

export type RegistryVersion = {
  id: string
  modelId: string
  version: string
  comment: string
  stages: string[]
  /** One of the statuses of its workspace. */
  status: string
  /** The source experiment, which may have been deleted. */
  experimentModelId: string
  experimentModelName: string
  experimentKey: string
  userName: string
  createdAtMs: bigint
  updatedAtMs: bigint
}

export const versionColumns = `v.id, v.model_id AS "modelId", v.version, v.comment, v.stages,
  v.status, v.experiment_model_id AS "experimentModelId", v.experiment_model_name AS "experimentModelName",
  v.experiment_key AS "experimentKey", u.user_name AS "userName", v.created_at_ms AS "createdAtMs",
  v.updated_at_ms AS "updatedAtMs"`

export const versions = 'FROM registry_versions v JOIN users u ON u.id = v.user_id'

const highestFirst = 'v.precedence DESC, v.place DESC'

/** The experiment model that a version is created from. */
export type ExperimentModelSource = {
  id: string
  name: string
  experimentId: bigint
  experimentKey: string
  workspaceId: string
  workspaceName: string
  /** Whether the caller may write to the experiment, or only read it. */
  isWritable: boolean
}

/** What a new version has its files of: an experiment model, or another version. */
export type VersionSource = Pick<ExperimentModelSource, 'id' | 'name' | 'experimentKey'> &
  ({ experimentId: bigint } | { versionId: string })

/**
 * A model of an experiment that the viewer may see; undefined if the experiment is deleted. Until the transaction ends, the
 * experiment is not purged and its assets are not replaced.
 */
export async function lockExperimentModel(
  queries: Queries,
  viewer: Viewer,
  experimentModelId: string,
): Promise<ExperimentModelSource | undefined> {
  const source = await queries.row<ExperimentModelSource>(
    `SELECT em.id, em.name, e.id AS "experimentId", e.key AS "experimentKey", w.id AS "workspaceId",
       w.name AS "workspaceName", ${mayWrite('w')} AS "isWritable"
     FROM experiment_models em JOIN experiments e ON e.id = em.experiment_id JOIN projects p ON p.id = e.project_id
     JOIN workspaces w ON w.id = p.workspace_id
     WHERE em.id = $4 AND e.deleted_at IS NULL AND ${mayReadExperiment('e', 'p', 'w')} FOR KEY SHARE OF e`,
    [...toViewerValues(viewer), experimentModelId],
  )
  if (source) await lockAssets(queries, source.experimentId)
  return source
}

type NewVersion = {
  modelId: string
  userId: string
  version: string
  comment: string
  stages: string[]
  status: string
  source: VersionSource
  nowMs: number
}

/**
 * Creates a version with the current files of its source, which must be locked. Returns its id and the number of files.
 * Fails with a unique violation when the model has this version.
 */
export async function insertRegistryVersion(
  queries: Queries,
  { modelId, userId, version, comment, stages, status, source, nowMs }: NewVersion,
): Promise<{ id: string; files: bigint }> {
  const parsed = parseSemver(version)
  if (!parsed) throw new Error(`${version} is not a semantic version`)
  const made = await queries.row<{ id: string }>(
    `INSERT INTO registry_versions (model_id, user_id, version, precedence, comment, stages, experiment_model_id,
       experiment_model_name, experiment_key, created_at_ms, updated_at_ms, status)
     VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $10, $11) RETURNING id`,
    [
      modelId,
      userId,
      version,
      toPrecedence(parsed),
      comment,
      stages,
      source.id,
      source.name,
      source.experimentKey,
      nowMs,
      status,
    ],
  )
  const { id } = made as { id: string }
  const [where, values] =
    'versionId' in source
      ? ['registry_files WHERE version_id = $2', [source.versionId]]
      : [
          'assets WHERE experiment_id = $2 AND type = $3 AND grouping_name = $4',
          [source.experimentId, modelElement, source.name],
        ]
  // A file stays locked until the version that refers to its object is visible.
  const kept = await queries.row<{ files: bigint }>(
    `WITH kept AS (
       INSERT INTO registry_files (version_id, id, place, file_name, type, content_type, size, sha256, object_key, link,
         step, context, metadata, tags, grouping_name, created_at_ms)
       SELECT $1, id, place, file_name, type, content_type, size, sha256, object_key, link, step, context, metadata, tags,
         grouping_name, created_at_ms
       FROM ${where} FOR KEY SHARE RETURNING 1)
     SELECT count(*) AS files FROM kept`,
    [id, ...values],
  )
  return { id, files: kept?.files ?? 0n }
}

/** The default version number: the next patch of the highest, or 1.0.0. */
export async function findNextVersion(queries: Queries, modelId: string): Promise<string> {
  const highest = await findRegistryVersion(queries, modelId, {})
  const parsed = highest && parseSemver(highest.version)
  return parsed ? nextPatch(parsed) : '1.0.0'
}

/** The versions of a model, in ascending order. */
export async function listRegistryVersions(queries: Queries, modelId: string): Promise<RegistryVersion[]> {
  return await queries.rows<RegistryVersion>(
    `SELECT ${versionColumns} ${versions} WHERE v.model_id = $1 ORDER BY v.precedence, v.place`,
    [modelId],
  )
}

/** The highest version of each model that has one. */
export async function listLatestVersions(queries: Queries, modelIds: string[]): Promise<RegistryVersion[]> {
  return await queries.rows<RegistryVersion>(
    `SELECT DISTINCT ON (v.model_id) ${versionColumns} ${versions} WHERE v.model_id = ANY($1)
     ORDER BY v.model_id, ${highestFirst}`,
    [modelIds],
  )
}

export type VersionChoice = {
  [name in 'version' | 'stage' | 'versionMajor' | 'versionMinor']?: string | undefined
}

/** The highest version of a model that matches every given filter. */
export async function findRegistryVersion(
  queries: Queries,
  modelId: string,
  { version, stage, versionMajor, versionMinor }: VersionChoice,
): Promise<RegistryVersion | undefined> {
  return await queries.row<RegistryVersion>(
    `SELECT ${versionColumns} ${versions} WHERE v.model_id = $1 AND ($2::text IS NULL OR v.version = $2)
       AND ($3::text IS NULL OR $3 = ANY (v.stages)) AND ($4::text IS NULL OR split_part(v.version, '.', 1) = $4)
       AND ($5::text IS NULL OR split_part(v.version, '.', 2) = $5) ORDER BY ${highestFirst} LIMIT 1`,
    [modelId, version ?? null, stage ?? null, versionMajor ?? null, versionMinor ?? null],
  )
}

type VersionFilter = { versionPrefix: string; tag: string | undefined; status: string | undefined }

/** The versions of a model that match every given filter, the highest first. */
export async function findRegistryVersions(
  queries: Queries,
  modelId: string,
  { versionPrefix, tag, status }: VersionFilter,
): Promise<RegistryVersion[]> {
  return await queries.rows<RegistryVersion>(
    `SELECT ${versionColumns} ${versions} WHERE v.model_id = $1 AND starts_with(v.version, $2)
       AND ($3::text IS NULL OR $3 = ANY (v.stages)) AND ($4::text IS NULL OR v.status = $4) ORDER BY ${highestFirst}`,
    [modelId, versionPrefix, tag ?? null, status ?? null],
  )
}

export async function findRegistryVersionById(
  queries: Queries,
  versionId: string,
): Promise<RegistryVersion | undefined> {
  return await queries.row<RegistryVersion>(`SELECT ${versionColumns} ${versions} WHERE v.id = $1`, [versionId])
}

type VersionFields = Pick<RegistryVersion, 'comment' | 'stages' | 'status'>

export async function updateRegistryVersion(
  queries: Queries,
  versionId: string,
  { comment, stages, status }: VersionFields,
  nowMs: number,
): Promise<void> {
  await queries.row(
    'UPDATE registry_versions SET comment = $2, stages = $3, updated_at_ms = $4, status = $5 WHERE id = $1',
    [versionId, comment, stages, nowMs, status],
  )
}

/** Deletes a version. The objects of its files are deleted later. */
export async function deleteRegistryVersion(queries: Queries, versionId: string): Promise<void> {
  await queries.row('DELETE FROM registry_versions WHERE id = $1', [versionId])
}

export type RegistryFile = Asset & { versionId: string }

/** The files of some versions, in upload order. */
export async function listRegistryFiles(queries: Queries, versionIds: string[]): Promise<RegistryFile[]> {
  return await queries.rows<RegistryFile>(
    `SELECT version_id AS "versionId", ${assetColumns} FROM registry_files WHERE version_id = ANY($1)
     ORDER BY version_id, place`,
    [versionIds],
  )
}

/** A file of a version that the viewer may see; absent and foreign look the same. */
export async function findRegistryFile(
  queries: Queries,
  { viewerId, organizationId }: Viewer,
  versionId: string,
  assetId: string,
): Promise<Asset | undefined> {
  return await queries.row<Asset>(
    `SELECT ${assetColumns} FROM registry_files WHERE version_id = $3 AND id = $4 AND EXISTS (
       SELECT 1 FROM registry_versions v JOIN registry_models m ON m.id = v.model_id
       JOIN workspaces w ON w.id = m.workspace_id WHERE v.id = $3 AND ${mayReadOfWorkspace('m', 'w')})`,
    [viewerId, organizationId, versionId, assetId],
  )
}

type RegistryRecord = Pick<RegistryVersion, 'experimentModelId' | 'id' | 'modelId' | 'version' | 'createdAtMs'> & {
  modelName: string
}

/** The versions created from experiment models, as far as the viewer may see them, oldest first. */
export async function listRegistryRecords(
  queries: Queries,
  { viewerId, organizationId }: Viewer,
  experimentModelIds: string[],
): Promise<RegistryRecord[]> {
  return await queries.rows<RegistryRecord>(
    `SELECT v.experiment_model_id AS "experimentModelId", v.id, v.model_id AS "modelId", v.version,
       v.created_at_ms AS "createdAtMs", m.name AS "modelName"
     FROM registry_versions v JOIN registry_models m ON m.id = v.model_id JOIN workspaces w ON w.id = m.workspace_id
     WHERE v.experiment_model_id = ANY($3) AND ${mayReadOfWorkspace('m', 'w')} ORDER BY v.place`,
    [viewerId, organizationId, experimentModelIds],
  )
}
