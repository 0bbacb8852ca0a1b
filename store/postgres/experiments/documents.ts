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
