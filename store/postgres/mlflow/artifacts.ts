import { type Asset, assetColumns, modelElement } from '../assets/assets.ts'
import type { Queries } from '../database.ts'

/**
 * Assets as MLflow sees them: files with paths. The path of a file of an experiment model begins with the name of the model.
 *
 * Files of logged models are no artifacts of the run: clients look for them under the model.
 */
export type FilesOf = { experimentId: bigint; modelName?: string } | { versionId: string }

/** Absolute names are shown without their first slash. */
const plainPath = "ltrim(a.file_name, '/')"
const pathInRun = `CASE WHEN a.type = '${modelElement}' AND a.grouping_name IS NOT NULL
  THEN a.grouping_name || '/' || ${plainPath} ELSE ${plainPath} END`

/** The files `f` with their paths, newest last by `place`. Uses `$1`, and `$2` for the name of a model. */
function toSource(of: FilesOf): { sql: string; values: unknown[] } {
  const paths = (path: string, from: string) => `(SELECT a.*, ${path} AS path FROM ${from}) f`
  if ('versionId' in of) {
    return {
      sql: paths(plainPath, 'registry_files a WHERE a.version_id = $1 AND $2::text IS NULL'),
      values: [of.versionId, null],
    }
  }
  if (of.modelName !== undefined) {
    const where = `a.experiment_id = $1 AND a.type = '${modelElement}' AND a.grouping_name = $2`
    return { sql: paths(plainPath, `assets a WHERE ${where}`), values: [of.experimentId, of.modelName] }
  }
  const notOfLogged = `NOT (a.type = '${modelElement}' AND a.grouping_name IS NOT NULL AND EXISTS (
    SELECT 1 FROM logged_models l WHERE l.experiment_id = a.experiment_id AND l.grouping_name = a.grouping_name))`
  return {
    sql: paths(pathInRun, `assets a WHERE a.experiment_id = $1 AND $2::text IS NULL AND ${notOfLogged}`),
    values: [of.experimentId, null],
  }
}

/** Clients refuse a whole list that has a name which is no path, and a folder of which they cannot read a file. */
const isShown = String.raw`(f.link IS NULL AND f.path !~ '(^|/)\.{0,2}(/|$)' AND f.path !~ '[\\#]')`

export type ListedFile = { name: string; isFolder: boolean; size: bigint | null }

/** What is directly in a folder, by name. @param folder '' or a path that ends with a slash */
export async function listFolder(queries: Queries, of: FilesOf, folder: string): Promise<ListedFile[]> {
  const { sql, values } = toSource(of)
  return await queries.rows(
    `SELECT split_part(rest, '/', 1) AS name, strpos(rest, '/') > 0 AS "isFolder",
       CASE WHEN strpos(rest, '/') > 0 THEN NULL ELSE (array_agg(size ORDER BY place DESC))[1] END AS size
     FROM (SELECT substr(f.path, length($3) + 1) AS rest, f.size, f.place FROM ${sql}
       WHERE starts_with(f.path, $3) AND ${isShown}) below
     GROUP BY 1, strpos(rest, '/') > 0 ORDER BY 1, 2`,
    [...values, folder],
  )
}

/** The newest file of a path. */
export async function findFile(queries: Queries, of: FilesOf, path: string): Promise<Asset | undefined> {
  const { sql, values } = toSource(of)
  return await queries.row(`SELECT ${assetColumns} FROM ${sql} WHERE f.path = $3 ORDER BY f.place DESC LIMIT 1`, [
    ...values,
    path,
  ])
}

/** The ids of a file and of all below it. @param path '' for all files */
export async function listFilesBelow(queries: Queries, of: FilesOf, path: string): Promise<string[]> {
  const { sql, values } = toSource(of)
  const rows = await queries.rows<{ id: string }>(
    `SELECT id FROM ${sql} WHERE $3 = '' OR f.path = $3 OR starts_with(f.path, $3 || '/') ORDER BY f.place`,
    [...values, path],
  )
  return rows.map((it) => it.id)
}

/** The model of a run that a path is in, which is no logged one. */
export async function findModelOfPath(
  queries: Queries,
  experimentId: bigint,
  path: string,
): Promise<string | undefined> {
  const row = await queries.row<{ name: string }>(
    `SELECT m.name FROM experiment_models m WHERE m.experiment_id = $1 AND starts_with($2, m.name || '/')
       AND NOT EXISTS (SELECT 1 FROM logged_models l WHERE l.experiment_id = $1 AND l.grouping_name = m.name)
     ORDER BY length(m.name) DESC LIMIT 1`,
    [experimentId, path],
  )
  return row?.name
}

/**
 * Makes the files below a path of a run a model of the experiment, whose name is that path. Their paths stay the same.
 *
 * @returns the id of the model; undefined when there are no such files
 */
export async function ensureModelOfPath(
  queries: Queries,
  experimentId: bigint,
  path: string,
): Promise<string | undefined> {
  await queries.row(
    `UPDATE assets a SET type = '${modelElement}', grouping_name = $2, file_name = substr(${plainPath}, length($2) + 2)
     WHERE a.experiment_id = $1 AND a.type = 'asset' AND a.artifact_version_id IS NULL
       AND starts_with(${plainPath}, $2 || '/')`,
    [experimentId, path],
  )
  await queries.row(
    `INSERT INTO experiment_models (experiment_id, name) SELECT $1, $2 WHERE EXISTS (
       SELECT 1 FROM assets WHERE experiment_id = $1 AND type = '${modelElement}' AND grouping_name = $2)
     ON CONFLICT DO NOTHING`,
    [experimentId, path],
  )
  return await findExperimentModelId(queries, experimentId, path)
}

export async function findExperimentModelId(
  queries: Queries,
  experimentId: bigint,
  name: string,
): Promise<string | undefined> {
  const row = await queries.row<{ id: string }>(
    'SELECT id FROM experiment_models WHERE experiment_id = $1 AND name = $2',
    [experimentId, name],
  )
  return row?.id
}
