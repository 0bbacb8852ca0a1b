import type { Queries } from '../database.ts'

/** An experiment has at most one text of each kind. */
export type DocumentKind = 'html' | 'code' | 'graph' | 'git' | 'system' | 'cloud' | 'dependencies'

export async function findDocument(
  queries: Queries,
  experimentId: bigint,
  kind: DocumentKind,
): Promise<string | undefined> {
  const row = await queries.row<{ content: string }>(
    'SELECT content FROM experiment_documents WHERE experiment_id = $1 AND kind = $2',
    [experimentId, kind],
  )
  return row?.content
}

/** Inserts or replaces a text. */
export async function upsertDocument(
  queries: Queries,
  experimentId: bigint,
  kind: DocumentKind,
  content: string,
): Promise<void> {
  await queries.row(
    `INSERT INTO experiment_documents (experiment_id, kind, content) VALUES ($1, $2, $3)
     ON CONFLICT (experiment_id, kind) DO UPDATE SET content = excluded.content`,
    [experimentId, kind, content],
  )
}

/**
 * Appends to a text.
 *
 * @returns false, and stores nothing, when the text would be longer than `bytesMax`
 */
export async function appendDocument(
  queries: Queries,
  experimentId: bigint,
  kind: DocumentKind,
  more: string,
  bytesMax: number,
): Promise<boolean> {
  const row = await queries.row(
    `INSERT INTO experiment_documents AS d (experiment_id, kind, content) VALUES ($1, $2, $3)
     ON CONFLICT (experiment_id, kind) DO UPDATE SET content = d.content || excluded.content
       WHERE octet_length(d.content) + octet_length(excluded.content) <= $4
     RETURNING 1`,
    [experimentId, kind, more, bytesMax],
  )
  return row !== undefined
}

/** Merges fields into a JSON document; other fields stay. */
export async function mergeDocument(
  queries: Queries,
  experimentId: bigint,
  kind: DocumentKind,
  fields: Record<string, unknown>,
): Promise<void> {
  await queries.row(
    `INSERT INTO experiment_documents AS d (experiment_id, kind, content) VALUES ($1, $2, $3)
     ON CONFLICT (experiment_id, kind)
     DO UPDATE SET content = (d.content::jsonb || excluded.content::jsonb)::text`,
    [experimentId, kind, JSON.stringify(fields)],
  )
}

/**
 * Merges fields into the system details; other fields stay. Of the additional information every key keeps its last value,
 * for clients send one key at a time.
 */
export async function mergeSystemDetails(
  queries: Queries,
  experimentId: bigint,
  details: Record<string, unknown>,
): Promise<void> {
  const old = `d.content::jsonb`
  const more = `excluded.content::jsonb`
  await queries.row(
    `INSERT INTO experiment_documents AS d (experiment_id, kind, content) VALUES ($1, 'system', $2)
     ON CONFLICT (experiment_id, kind) DO UPDATE SET content = (${old} || ${more} ||
       CASE WHEN ${old} ? $3 AND ${more} ? $3 THEN jsonb_build_object($3::text,
         (SELECT coalesce(jsonb_agg(kept.entry ORDER BY kept.place), '[]') FROM (
            SELECT entry, place FROM jsonb_array_elements(${old} -> $3) WITH ORDINALITY AS o(entry, place)
            WHERE NOT EXISTS (SELECT 1 FROM jsonb_array_elements(${more} -> $3) n WHERE n ->> 'key' = o.entry ->> 'key')
            ORDER BY place DESC LIMIT $4) kept) || (${more} -> $3))
       ELSE '{}' END)::text`,
    [experimentId, JSON.stringify(details), 'logAdditionalSystemInfoList', additionalMax],
  )
}

/** The oldest of more additional information is dropped. */
const additionalMax = 10_000
