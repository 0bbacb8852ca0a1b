import type { Database, Queries } from '../database.ts'

export type ValueKind = 'parameter' | 'other'

export type LastValue = {
  /** With its context, as `<context>_<name>`. */
  name: string
  context: string | null
  value: string
  step: bigint | null
  timestampMs: bigint
}

type NewValue = {
  name: string
  context: string | undefined
  value: string
  step?: number | bigint
  timestampMs: number | bigint
}

/**
 * Sets the value of a parameter or other; the last write of a name and context wins. The other `Name` without a context also
 * renames the experiment.
 */
export async function upsertValue(
  database: Database,
  experimentId: bigint,
  kind: ValueKind,
  { name: ownName, context, value, step, timestampMs }: NewValue,
): Promise<void> {
  const name = context ? `${context}_${ownName}` : ownName
  const upsert = (queries: Queries) =>
    queries.row(
      `INSERT INTO experiment_values (experiment_id, kind, name, context, value, step, timestamp_ms)
       VALUES ($1, $2, $3, $4, $5, $6, $7)
       ON CONFLICT (experiment_id, kind, name) DO UPDATE SET
         context = excluded.context, value = excluded.value, step = excluded.step, timestamp_ms = excluded.timestamp_ms`,
      [experimentId, kind, name, context || null, value, step ?? null, timestampMs],
    )
  if (kind === 'parameter' || name !== 'Name') {
    await upsert(database)
    return
  }
  await database.transaction(async (queries) => {
    await queries.row('UPDATE experiments SET name = $2 WHERE id = $1', [experimentId, value])
    await upsert(queries)
  })
}

export async function listValues(queries: Queries, experimentId: bigint, kind: ValueKind): Promise<LastValue[]> {
  return await queries.rows<LastValue>(
    `SELECT name, context, value, step, timestamp_ms AS "timestampMs" FROM experiment_values
     WHERE experiment_id = $1 AND kind = $2 ORDER BY name`,
    [experimentId, kind],
  )
}

/** Deletes a value by its summary name; one that is not there is ignored. */
export async function deleteValue(
  queries: Queries,
  experimentId: bigint,
  kind: ValueKind,
  name: string,
): Promise<void> {
  await queries.row('DELETE FROM experiment_values WHERE experiment_id = $1 AND kind = $2 AND name = $3', [
    experimentId,
    kind,
    name,
  ])
}

/** Adds tags; existing ones stay. */
export async function insertTags(queries: Queries, experimentId: bigint, tags: string[]): Promise<void> {
  await queries.row(
    `INSERT INTO experiment_tags (experiment_id, tag, added_at)
     SELECT $1, tag, clock_timestamp() + place * interval '1 microsecond'
     FROM unnest($2::text[]) WITH ORDINALITY AS added(tag, place) ON CONFLICT DO NOTHING`,
    [experimentId, tags],
  )
}

/** Tags that are not there are ignored. */
export async function deleteTags(queries: Queries, experimentId: bigint, tags: string[]): Promise<void> {
  await queries.row('DELETE FROM experiment_tags WHERE experiment_id = $1 AND tag = ANY($2)', [experimentId, tags])
}

export async function listTags(queries: Queries, experimentId: bigint): Promise<string[]> {
  const rows = await queries.rows<{ tag: string }>(
    'SELECT tag FROM experiment_tags WHERE experiment_id = $1 ORDER BY added_at, tag',
    [experimentId],
  )
  return rows.map((it) => it.tag)
}
