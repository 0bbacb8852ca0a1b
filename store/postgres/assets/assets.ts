import { ArtifactConflict, lockArtifactState } from '../artifacts/state.ts'
import type { Database, Queries } from '../database.ts'

/** The metadata of an asset. Its bytes are in the object store. */
export type Asset = {
  id: string
  fileName: string
  type: string
  contentType: string
  size: bigint
  step: bigint | null
  context: string | null
  metadata: string | null
  tags: string[]
  groupingName: string | null
  createdAtMs: bigint
} & (StoredAsset | RemoteAsset)

type StoredAsset = { objectKey: string; sha256: string; link: null }
type RemoteAsset = { objectKey: null; sha256: null; link: string }

/** Files of artifacts and of registered versions have the same columns. */
export const assetColumns = `id, file_name AS "fileName", type, content_type AS "contentType", size, sha256,
  object_key AS "objectKey", link, step, context, metadata, tags, grouping_name AS "groupingName",
  created_at_ms AS "createdAtMs"`

export type NewAsset = {
  /** Replaces the asset of the same name. */
  id: string
  fileName: string
  type: string
  contentType: string
  size: number
  step: number | bigint | undefined
  epoch: number | bigint | undefined
  context: string | undefined
  source: string | undefined
  metadata: string | undefined
  tags: string[]
  groupingName: string | undefined
  artifactVersionId: string | undefined
  nowMs: number
  /** Replaces all assets of its name. */
  overwrite: boolean
} & (Omit<StoredAsset, 'link'> | Pick<RemoteAsset, 'link'>)

/** Files of this type belong to an experiment model. */
export const modelElement = 'model-element'

const assetsLock = 7392003

/**
 * Serializes the writes to an experiment's assets until the transaction ends: counts are exact, one overwriter wins, and no
 * caller sees a partial overwrite.
 */
export async function lockAssets(queries: Queries, experimentId: bigint): Promise<void> {
  await queries.row('SELECT pg_advisory_xact_lock($1, hashint8($2))', [assetsLock, experimentId])
}

/** The experiment would have too many assets of this type. Nothing was stored. */
export class TooManyAssets extends Error {
  readonly type: string

  constructor(type: string) {
    super(`too many assets of type ${type}`)
    this.type = type
  }
}

/** The asset is a file of a closed artifact version. Nothing was changed. */
export class FinalAsset extends Error {
  readonly type: string

  constructor(type: string) {
    super('the asset is final')
    this.type = type
  }
}

/**
 * Inserts assets of an experiment, all or none. Their objects must have been announced by `insertOrphanedObject`; the
 * objects of replaced assets become orphaned.
 *
 * @throws TooManyAssets, FinalAsset, ArtifactConflict
 */
export async function insertAssets(
  database: Database,
  experimentId: bigint,
  assets: NewAsset[],
  ofTypeMax: (type: string) => number,
): Promise<void> {
  await database.transaction(async (queries) => {
    await lockAssets(queries, experimentId)
    for (const versionId of new Set(assets.map((it) => it.artifactVersionId))) {
      if (versionId === undefined) continue
      const state = await lockArtifactState(queries, versionId, experimentId)
      if (state !== 'OPEN') throw new ArtifactConflict('stateFinal')
    }
    for (const asset of assets) await insertAsset(queries, experimentId, asset)
    for (const type of new Set(assets.map((it) => it.type))) {
      const max = ofTypeMax(type)
      if (max < Number.POSITIVE_INFINITY && (await countAssets(queries, experimentId, type)) > max) {
        throw new TooManyAssets(type)
      }
    }
  })
}

async function countAssets(queries: Queries, experimentId: bigint, type: string): Promise<bigint> {
  const row = await queries.row<{ count: bigint }>(
    'SELECT count(*) FROM assets WHERE experiment_id = $1 AND type = $2',
    [experimentId, type],
  )
  return row?.count ?? 0n
}

async function insertAsset(queries: Queries, experimentId: bigint, asset: NewAsset) {
  const objectKey = 'objectKey' in asset ? asset.objectKey : null
  await checkNotFinal(queries, experimentId, asset.id)
  // A file of an artifact replaces files of the same version only.
  await queries.row(
    `DELETE FROM assets WHERE experiment_id = $1
       AND (id = $2 OR ($3 AND file_name = $4 AND artifact_version_id IS NOT DISTINCT FROM $5))`,
    [experimentId, asset.id, asset.overwrite, asset.fileName, asset.artifactVersionId ?? null],
  )
  if (objectKey !== null) {
    const announced = await queries.row('DELETE FROM loose_objects WHERE object_key = $1 RETURNING object_key', [
      objectKey,
    ])
    if (!announced) throw new Error(`the object ${objectKey} was not announced, or was freed again`)
  }
  await queries.row(
    `INSERT INTO assets (experiment_id, id, file_name, type, content_type, size, sha256, object_key, link, step, epoch,
       context, source, metadata, tags, grouping_name, artifact_version_id, created_at_ms)
     VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18)`,
    [
      experimentId,
      asset.id,
      asset.fileName,
      asset.type,
      asset.contentType,
      asset.size,
      'sha256' in asset ? asset.sha256 : null,
      objectKey,
      'link' in asset ? asset.link : null,
      asset.step ?? null,
      asset.epoch ?? null,
      asset.context ?? null,
      asset.source ?? null,
      asset.metadata ?? null,
      asset.tags,
      asset.groupingName ?? null,
      asset.artifactVersionId ?? null,
      asset.nowMs,
    ],
  )
  if (asset.type !== modelElement || asset.groupingName === undefined) return
  await queries.row('INSERT INTO experiment_models (experiment_id, name) VALUES ($1, $2) ON CONFLICT DO NOTHING', [
    experimentId,
    asset.groupingName,
  ])
}

/** The assets of an experiment in upload order, of one type or of all. */
export async function listAssets(
  queries: Queries,
  experimentId: bigint,
  { type, fileName }: { type?: string | undefined; fileName?: string } = {},
): Promise<Asset[]> {
  return await queries.rows<Asset>(
    `SELECT ${assetColumns} FROM assets WHERE experiment_id = $1 AND ($2::text IS NULL OR type = $2)
       AND ($3::text IS NULL OR file_name = $3) ORDER BY place`,
    [experimentId, type ?? null, fileName ?? null],
  )
}

export async function findAsset(queries: Queries, experimentId: bigint, id: string): Promise<Asset | undefined> {
  return await queries.row<Asset>(`SELECT ${assetColumns} FROM assets WHERE experiment_id = $1 AND id = $2`, [
    experimentId,
    id,
  ])
}

/** The newest asset of a type. */
export async function findNewestAsset(
  queries: Queries,
  experimentId: bigint,
  type: string,
): Promise<Asset | undefined> {
  return await queries.row<Asset>(
    `SELECT ${assetColumns} FROM assets WHERE experiment_id = $1 AND type = $2 ORDER BY place DESC LIMIT 1`,
    [experimentId, type],
  )
}

/**
 * Deletes an asset; its object becomes orphaned.
 *
 * @returns false when there is no such asset
 * @throws FinalAsset
 */
export async function deleteAsset(database: Database, experimentId: bigint, id: string): Promise<boolean> {
  return await database.transaction(async (queries) => {
    await checkNotFinal(queries, experimentId, id)
    const row = await queries.row('DELETE FROM assets WHERE experiment_id = $1 AND id = $2 RETURNING id', [
      experimentId,
      id,
    ])
    return row !== undefined
  })
}

/** Locks the artifact version of an asset until the transaction ends. */
async function checkNotFinal(queries: Queries, experimentId: bigint, id: string) {
  const asset = await queries.row<{ type: string; versionId: string | null }>(
    'SELECT type, artifact_version_id AS "versionId" FROM assets WHERE experiment_id = $1 AND id = $2',
    [experimentId, id],
  )
  if (!asset || asset.versionId === null) return
  if ((await lockArtifactState(queries, asset.versionId, experimentId)) === 'CLOSED') throw new FinalAsset(asset.type)
}

/** Adds tags to an asset. False when there is no such asset. */
export async function addAssetTags(
  queries: Queries,
  experimentId: bigint,
  id: string,
  tags: string[],
): Promise<boolean> {
  const row = await queries.row(
    `UPDATE assets SET tags = tags || ARRAY(
       SELECT tag FROM unnest($3::text[]) WITH ORDINALITY AS added(tag, place)
       WHERE tag <> ALL (tags) GROUP BY tag ORDER BY min(place))
     WHERE experiment_id = $1 AND id = $2 RETURNING id`,
    [experimentId, id, tags],
  )
  return row !== undefined
}

/** Removes a tag from an asset. False when there is no such asset. */
export async function removeAssetTag(
  queries: Queries,
  experimentId: bigint,
  id: string,
  tag: string,
): Promise<boolean> {
  const row = await queries.row(
    'UPDATE assets SET tags = array_remove(tags, $3) WHERE experiment_id = $1 AND id = $2 RETURNING id',
    [experimentId, id, tag],
  )
  return row !== undefined
}

export type ExperimentModel = { id: string; name: string }

/** The models of an experiment, by name. */
export async function listModels(queries: Queries, experimentId: bigint): Promise<ExperimentModel[]> {
  return await queries.rows<ExperimentModel>(
    'SELECT id, name FROM experiment_models WHERE experiment_id = $1 ORDER BY name',
    [experimentId],
  )
}

/** The files of a model in upload order; undefined when there is no such model. */
export async function listModelAssets(
  queries: Queries,
  experimentId: bigint,
  name: string,
): Promise<Asset[] | undefined> {
  const model = await queries.row('SELECT 1 FROM experiment_models WHERE experiment_id = $1 AND name = $2', [
    experimentId,
    name,
  ])
  if (!model) return undefined
  return await queries.rows<Asset>(
    `SELECT ${assetColumns} FROM assets WHERE experiment_id = $1 AND type = $2 AND grouping_name = $3 ORDER BY place`,
    [experimentId, modelElement, name],
  )
}

/** The bytes of a project's workspace in the object store: assets, and files that only registered versions still refer to. */
export async function sumWorkspaceBytes(
  queries: Queries,
  of: { workspaceId: string } | { projectId: string },
): Promise<bigint> {
  const [own, id] =
    'workspaceId' in of
      ? ['$1::uuid', of.workspaceId]
      : ['(SELECT workspace_id FROM projects WHERE id = $1)', of.projectId]
  const row = await queries.row<{ bytes: bigint }>(
    `SELECT coalesce(sum(kept.size), 0)::bigint AS bytes FROM (
       SELECT a.size FROM projects p JOIN experiments e ON e.project_id = p.id
       JOIN assets a ON a.experiment_id = e.id WHERE p.workspace_id = ${own} AND a.object_key IS NOT NULL
       UNION ALL (
       SELECT DISTINCT ON (f.object_key) f.size FROM registry_models m
       JOIN registry_versions v ON v.model_id = m.id
       JOIN registry_files f ON f.version_id = v.id WHERE m.workspace_id = ${own} AND f.object_key IS NOT NULL
         AND NOT EXISTS (SELECT 1 FROM assets a WHERE a.object_key = f.object_key))) kept`,
    [id],
  )
  return row?.bytes ?? 0n
}
