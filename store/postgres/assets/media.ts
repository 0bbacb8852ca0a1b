import type { Queries } from '../database.ts'
import { type Asset, assetColumns } from './assets.ts'

/** What people look at or listen to, of the assets of experiments. */
export const mediaKinds = [
  ...(['image', 'audio', 'video', 'text', 'html', 'table', 'curve', 'histogram'] as const),
  ...(['confusion-matrix', 'points', 'embedding'] as const),
] as const

type MediaKind = (typeof mediaKinds)[number]

/**
 * The kind of an asset `a`, null when it is only a file. Its type says it; of plain files, which have the type `asset`, the
 * content type and the ending do. The images of an embedding are a part of it.
 */
const kind = `CASE a.type
  WHEN 'image' THEN 'image' WHEN 'audio' THEN 'audio' WHEN 'video' THEN 'video' WHEN 'text-sample' THEN 'text'
  WHEN 'dataframe' THEN 'table' WHEN 'curve' THEN 'curve' WHEN 'histogram3d' THEN 'histogram'
  WHEN 'confusion-matrix' THEN 'confusion-matrix' WHEN '3d-points' THEN 'points' WHEN 'embeddings' THEN 'embedding'
  WHEN 'asset' THEN CASE
    WHEN a.artifact_version_id IS NOT NULL THEN NULL
    WHEN a.content_type = 'text/html' THEN 'html'
    WHEN a.content_type LIKE 'audio/%' THEN 'audio'
    WHEN a.content_type LIKE 'video/%' THEN 'video'
    WHEN a.content_type LIKE 'image/%' AND NOT (a.file_name LIKE '%-images.png' AND EXISTS (
      SELECT 1 FROM assets m WHERE m.experiment_id = a.experiment_id AND m.type = 'embeddings'
        AND m.file_name = regexp_replace(a.file_name, '-images\\.png$', '.json'))) THEN 'image'
    WHEN lower(a.file_name) ~ '\\.(csv|parquet)$' THEN 'table' END
  END`

/** The name that assets of a series share; that of clients and of the service is random where the caller gave none. */
const name = `CASE
  WHEN a.type = 'text-sample' AND a.file_name ~ '^text(-sample)?-[0-9a-f]+\\.txt$' THEN 'text'
  WHEN starts_with(a.file_name, a.type || '-')
    AND substr(a.file_name, length(a.type) + 2) ~ '^[0-9a-f]{8}(\\.[^./]*)?$' THEN a.type
  ELSE a.file_name END`

/** Values: the ids of experiments, a kind or null, a name or null. */
const found = `(SELECT a.*, ${kind} AS kind, ${name} AS shown FROM assets a WHERE a.experiment_id = ANY($1::bigint[])) a
  WHERE kind IS NOT NULL AND ($2::text IS NULL OR kind = $2) AND ($3::text IS NULL OR shown = $3)`

type Wanted = { experimentIds: bigint[]; kind?: MediaKind | undefined; name?: string | undefined }
type Page = { skip: number; limit: number }

const toValues = ({ experimentIds, kind, name }: Wanted) => [experimentIds, kind ?? null, name ?? null]

export type Medium = Asset & { experimentId: bigint; kind: MediaKind; name: string; epoch: bigint | null }

type Search = Wanted &
  Page & {
    /** Only the last ones of each experiment and name until this step. Those without a step come before all steps. */
    at?: number | bigint | undefined
    from?: number | bigint | undefined
    to?: number | bigint | undefined
  }

/** Media by step, those without one first, or those of one step by experiment; and how many there are in all. */
export async function listMedia(
  queries: Queries,
  { skip, limit, at, from, to, ...wanted }: Search,
): Promise<{ media: Medium[]; total: number }> {
  const ofSteps = `SELECT *, rank() OVER (PARTITION BY experiment_id, kind, shown ORDER BY step DESC NULLS LAST) AS age
    FROM ${found} AND ($4::bigint IS NULL OR step IS NULL OR step <= $4) AND ($5::bigint IS NULL OR step >= $5)
      AND ($6::bigint IS NULL OR step <= $6)`
  const values = [...toValues(wanted), at ?? null, from ?? null, to ?? null]
  const isWanted = '($4::bigint IS NULL OR age = 1)'
  const media = await queries.rows<Medium>(
    `SELECT experiment_id AS "experimentId", kind, shown AS name, epoch, ${assetColumns} FROM (${ofSteps}) m
     WHERE ${isWanted} ORDER BY kind, shown, CASE WHEN $4::bigint IS NOT NULL THEN array_position($1::bigint[], experiment_id) END,
       step NULLS FIRST, array_position($1::bigint[], experiment_id), place OFFSET $7 LIMIT $8`,
    [...values, skip, limit],
  )
  const counted = await queries.row<{ total: number }>(
    `SELECT count(*)::int AS total FROM (${ofSteps}) m WHERE ${isWanted}`,
    values,
  )
  return { media, total: counted?.total ?? 0 }
}

/** Media of one kind and name, over all steps of all experiments. */
export type MediaName = {
  kind: MediaKind
  name: string
  count: number
  experiments: number
  /** How many different steps; those without a step are not counted. */
  steps: number
  firstStep: bigint | null
  lastStep: bigint | null
}

/** The names of media that have a text in any case, by kind and name; and how many there are in all. */
export async function listMediaNames(
  queries: Queries,
  { skip, limit, search, ...wanted }: Wanted & Page & { search: string },
): Promise<{ names: MediaName[]; total: number }> {
  const from = `${found} AND ($4 = '' OR strpos(lower(shown), lower($4)) > 0) GROUP BY kind, shown`
  const values = [...toValues(wanted), search]
  const names = await queries.rows<MediaName>(
    `SELECT kind, shown AS name, count(*)::int AS count, count(DISTINCT experiment_id)::int AS experiments,
       count(DISTINCT step)::int AS steps, min(step) AS "firstStep", max(step) AS "lastStep"
     FROM ${from} ORDER BY array_position($7::text[], kind), shown OFFSET $5 LIMIT $6`,
    [...values, skip, limit, mediaKinds],
  )
  const counted = await queries.row<{ total: number }>(
    `SELECT count(*)::int AS total FROM (SELECT 1 FROM ${from}) n`,
    values,
  )
  return { names, total: counted?.total ?? 0 }
}

/** The steps that have media, rising; and how many there are in all. */
export async function listMediaSteps(
  queries: Queries,
  { limit, ...wanted }: Wanted & Pick<Page, 'limit'>,
): Promise<{ steps: bigint[]; total: number }> {
  const rows = await queries.rows<{ step: bigint; total: number }>(
    `SELECT step, count(*) OVER ()::int AS total FROM (SELECT DISTINCT step FROM ${found} AND step IS NOT NULL) s
     ORDER BY step LIMIT $4`,
    [...toValues(wanted), limit],
  )
  return { steps: rows.map((it) => it.step), total: rows[0]?.total ?? 0 }
}
