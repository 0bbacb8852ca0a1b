import type { Queries } from '../database.ts'
import { type RegistryVersion, versionColumns, versions } from '../registry/versions.ts'

/** A registered version as clients of MLflow see it. */
export type MlflowVersion = RegistryVersion & {
  modelName: string
  /** JSON text of a list of keys and values. */
  metadata: string
  aliases: string[]
} & Origin

/** Where a version came from, as the client said; null for versions that others registered. */
export type Origin = {
  source: string | null
  sourceRun: string | null
  runLink: string | null
  loggedModelId: string | null
}

const columns = `${versionColumns}, m.name AS "modelName", v.metadata, v.source, v.source_run AS "sourceRun",
  v.run_link AS "runLink", v.logged_model_id AS "loggedModelId",
  ARRAY(SELECT a.alias FROM registry_aliases a WHERE a.version_id = v.id ORDER BY a.alias) AS aliases`

const from = `${versions} JOIN registry_models m ON m.id = v.model_id`

/** The versions of models, in ascending order. */
export async function listMlflowVersions(queries: Queries, modelIds: string[]): Promise<MlflowVersion[]> {
  return await queries.rows(
    `SELECT ${columns} ${from} WHERE v.model_id = ANY($1) ORDER BY v.model_id, v.precedence, v.place`,
    [modelIds],
  )
}

export async function findMlflowVersion(queries: Queries, versionId: string): Promise<MlflowVersion | undefined> {
  return await queries.row(`SELECT ${columns} ${from} WHERE v.id = $1`, [versionId])
}

/**
 * The next of the versions 1.0.0, 2.0.0, ... of a model. A number is not given again, also when its version was deleted: who
 * asks for that one must not get another.
 */
export async function findNextMajor(queries: Queries, modelId: string): Promise<string> {
  const row = await queries.row<{ next: string }>(
    `SELECT (1 + coalesce(max(split_part(version, '.', 1)::numeric), 0))::text || '.0.0' AS next FROM (
       SELECT version FROM registry_versions WHERE model_id = $1
       UNION ALL SELECT version FROM registry_events WHERE model_id = $1 AND action = 'MODEL_VERSION_CREATED') known`,
    [modelId],
  )
  return row?.next ?? '1.0.0'
}

export async function updateOrigin(
  queries: Queries,
  versionId: string,
  { source, sourceRun, runLink, loggedModelId }: Origin,
): Promise<void> {
  await queries.row(
    'UPDATE registry_versions SET source = $2, source_run = $3, run_link = $4, logged_model_id = $5 WHERE id = $1',
    [versionId, source, sourceRun, runLink, loggedModelId],
  )
}

/** Lets an alias name a version. @returns the version that it named before */
export async function upsertAlias(
  queries: Queries,
  { modelId, alias, versionId }: { modelId: string; alias: string; versionId: string },
): Promise<string | undefined> {
  const before = await findAlias(queries, modelId, alias)
  await queries.row(
    `INSERT INTO registry_aliases (model_id, alias, version_id) VALUES ($1, $2, $3)
     ON CONFLICT (model_id, alias) DO UPDATE SET version_id = excluded.version_id`,
    [modelId, alias, versionId],
  )
  return before?.version
}

type Aliased = { alias: string; versionId: string; version: string }

export async function findAlias(queries: Queries, modelId: string, alias: string): Promise<Aliased | undefined> {
  return (await listAliases(queries, [modelId])).find((it) => it.alias === alias)
}

/** The aliases of models, by name. */
export async function listAliases(queries: Queries, modelIds: string[]): Promise<(Aliased & { modelId: string })[]> {
  return await queries.rows(
    `SELECT a.model_id AS "modelId", a.alias, a.version_id AS "versionId", v.version FROM registry_aliases a
     JOIN registry_versions v ON v.id = a.version_id WHERE a.model_id = ANY($1) ORDER BY a.alias`,
    [modelIds],
  )
}

export async function deleteAlias(queries: Queries, modelId: string, alias: string): Promise<void> {
  await queries.row('DELETE FROM registry_aliases WHERE model_id = $1 AND alias = $2', [modelId, alias])
}

/** The tags of models, by key. */
export async function listModelTags(
  queries: Queries,
  modelIds: string[],
): Promise<{ modelId: string; key: string; value: string }[]> {
  return await queries.rows(
    'SELECT model_id AS "modelId", key, value FROM registry_model_tags WHERE model_id = ANY($1) ORDER BY key',
    [modelIds],
  )
}

/** Sets tags of a model; the last one of each key counts. */
export async function upsertModelTags(
  queries: Queries,
  modelId: string,
  tags: { key: string; value: string }[],
): Promise<void> {
  for (const { key, value } of tags) {
    await queries.row(
      `INSERT INTO registry_model_tags (model_id, key, value) VALUES ($1, $2, $3)
       ON CONFLICT (model_id, key) DO UPDATE SET value = excluded.value`,
      [modelId, key, value],
    )
  }
}

/** False when there is no such tag. */
export async function deleteModelTag(queries: Queries, modelId: string, key: string): Promise<boolean> {
  const row = await queries.row('DELETE FROM registry_model_tags WHERE model_id = $1 AND key = $2 RETURNING key', [
    modelId,
    key,
  ])
  return row !== undefined
}
