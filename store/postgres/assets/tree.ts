import { selectFiles } from '../artifacts/files.ts'
import type { Queries } from '../database.ts'
import { type Asset, assetColumns } from './assets.ts'

/** Whose files a tree has. */
export type TreeOf = { experimentId: bigint } | { artifactVersionId: string }

/** A folder with all that is below it. */
type Folder = { name: string; files: number; bytes: bigint }

type Level = {
  folders: Folder[]
  files: Asset[]
  /** Of this level, on all pages. */
  entries: number
  /** Of everything below, also in folders. */
  filesBelow: number
  bytesBelow: bigint
}

/** The place of a file: the folders are in its name, those of a model below the name of it. */
const path = `coalesce(nullif(trim(BOTH '/' FROM regexp_replace(
  CASE WHEN a.type = 'model-element' AND a."groupingName" IS NOT NULL THEN 'models/' || a."groupingName" || '/' ELSE '' END
    || a."fileName", '/+', '/', 'g')), ''), a.id)`

function toSource(of: TreeOf): [from: string, id: bigint | string] {
  return 'experimentId' in of
    ? [`(SELECT ${assetColumns}, place FROM assets WHERE experiment_id = $1)`, of.experimentId]
    : [`(${selectFiles})`, of.artifactVersionId]
}

/**
 * One level of a tree of files: folders by name, then files by name and step.
 *
 * @param folder `a/b`; empty: the top
 */
export async function listLevel(
  queries: Queries,
  of: TreeOf,
  { folder, skip, limit }: { folder: string; skip: number; limit: number },
): Promise<Level> {
  const [source, id] = toSource(of)
  const prefix = folder === '' ? '' : `${folder}/`
  const below = `(SELECT a.*, substr(a.path, length($2) + 1) AS rest FROM (SELECT a.*, ${path} AS path FROM ${source} a) a
    WHERE starts_with(a.path, $2)) a`
  const values = [id, prefix]
  const inFolder = `strpos(rest, '/') > 0`
  const counted = await queries.row<{ files: number; bytes: bigint; folders: number; own: number }>(
    `SELECT count(*)::int AS files, coalesce(sum(size), 0)::bigint AS bytes,
       count(DISTINCT split_part(rest, '/', 1)) FILTER (WHERE ${inFolder})::int AS folders,
       count(*) FILTER (WHERE NOT ${inFolder})::int AS own FROM ${below}`,
    values,
  )
  const { files: filesBelow = 0, bytes: bytesBelow = 0n, folders: foldersTotal = 0, own = 0 } = counted ?? {}
  const folders = await queries.rows<Folder>(
    `SELECT split_part(rest, '/', 1) AS name, count(*)::int AS files, coalesce(sum(size), 0)::bigint AS bytes
     FROM ${below} WHERE ${inFolder} GROUP BY 1 ORDER BY 1 OFFSET $3 LIMIT $4`,
    [...values, skip, limit],
  )
  const left = limit - folders.length
  const files =
    left === 0
      ? []
      : await queries.rows<Asset>(
          `SELECT a.* FROM ${below} WHERE NOT ${inFolder} ORDER BY rest, step NULLS FIRST, place OFFSET $3 LIMIT $4`,
          [...values, Math.max(0, skip - foldersTotal), left],
        )
  return { folders, files, entries: foldersTotal + own, filesBelow, bytesBelow }
}

/** The files at any place whose path has a text in any case, or the one of an id, by path and step; and how many there are. */
export async function searchFiles(
  queries: Queries,
  of: TreeOf,
  { search, assetId, skip, limit }: { search: string; assetId: string | undefined; skip: number; limit: number },
): Promise<{ files: Asset[]; total: number; bytes: bigint }> {
  const [source, id] = toSource(of)
  const from = `(SELECT a.*, ${path} AS path FROM ${source} a) a
    WHERE ($2 = '' OR strpos(lower(path), lower($2)) > 0) AND ($3::text IS NULL OR id = $3)`
  const values = [id, search, assetId ?? null]
  const files = await queries.rows<Asset>(
    `SELECT a.* FROM ${from} ORDER BY path, step NULLS FIRST, place OFFSET $4 LIMIT $5`,
    [...values, skip, limit],
  )
  const counted = await queries.row<{ total: number; bytes: bigint }>(
    `SELECT count(*)::int AS total, coalesce(sum(size), 0)::bigint AS bytes FROM ${from}`,
    values,
  )
  return { files, total: counted?.total ?? 0, bytes: counted?.bytes ?? 0n }
}

/** The files of a folder and of those in it, with their places. */
export async function listFilesBelow(
  queries: Queries,
  of: TreeOf,
  folder: string,
): Promise<(Asset & { path: string })[]> {
  const [source, id] = toSource(of)
  return await queries.rows<Asset & { path: string }>(
    `SELECT a.* FROM (SELECT a.*, ${path} AS path FROM ${source} a) a WHERE starts_with(path, $2) ORDER BY path, place`,
    [id, folder === '' ? '' : `${folder}/`],
  )
}
