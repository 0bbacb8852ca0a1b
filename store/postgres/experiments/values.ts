import { compare } from '../../../runtime/compare.ts'
import type { Database, Queries } from '../database.ts'
import { createRoom, type Room } from './room.ts'

/** Where the values of runs are kept, and how much room they have there. */
export type RunStore = { database: Database; room: Room }

export const createRunStore = (database: Database): RunStore => ({ database, room: createRoom(database) })

export type ValueKind = 'parameter' | 'other'

export type LastValue = {
  /** With its context, as `<context>_<name>`. */
  name: string
  context: string | null
  value: string
  step: bigint | null
  timestampMs: bigint
}

export type NewValue = {
  name: string
  context: string | undefined
  value: string
  step?: number | bigint
  timestampMs: number | bigint
}

/** The name of a value in a summary. */
const nameOf = ({ name, context }: NewValue) => (context ? `${context}_${name}` : name)

/**
 * Sets parameters or others, all of them or none; the last write of a name and context wins, also among those given. The other
 * `Name` without a context also renames the experiment.
 *
 * @throws ValuesFull
 */
export async function upsertValues(
  { database, room }: RunStore,
  experimentId: bigint,
  kind: ValueKind,
  values: NewValue[],
): Promise<void> {
  await room.take(
    experimentId,
    values.map((it) => ({ kind, name: nameOf(it), texts: [it.value] })),
  )
  const isRename = kind === 'other' && values.some((it) => nameOf(it) === 'Name')
  if (isRename) await database.transaction((queries) => setValues(queries, experimentId, kind, values))
  else await setValues(database, experimentId, kind, values)
}

/** The same, in a transaction that has room for them. */
export async function setValues(
  queries: Queries,
  experimentId: bigint,
  kind: ValueKind,
  values: NewValue[],
): Promise<void> {
  const byName = new Map(values.map((it) => [nameOf(it), it]))
  // In one order, so that two writes of the same names do not wait for each other.
  const rows = [...byName].sort(([one], [other]) => compare(one, other))
  if (rows.length === 0) return
  const renamed = kind === 'other' ? byName.get('Name') : undefined
  if (renamed !== undefined) {
    await queries.row('UPDATE experiments SET name = $2 WHERE id = $1', [experimentId, renamed.value])
  }
  await queries.row(
    `INSERT INTO experiment_values (experiment_id, kind, name, context, value, step, timestamp_ms)
     SELECT $1, $2, * FROM unnest($3::text[], $4::text[], $5::text[], $6::bigint[], $7::bigint[])
     ON CONFLICT (experiment_id, kind, name) DO UPDATE SET
       context = excluded.context, value = excluded.value, step = excluded.step, timestamp_ms = excluded.timestamp_ms`,
    [
      experimentId,
      kind,
      rows.map(([name]) => name),
      rows.map(([, it]) => it.context || null),
      rows.map(([, it]) => it.value),
      rows.map(([, it]) => it.step ?? null),
      rows.map(([, it]) => it.timestampMs),
    ],
  )
}

export async function listValues(queries: Queries, experimentId: bigint, kind: ValueKind): Promise<LastValue[]> {
  return await queries.rows<LastValue>(
    `SELECT name, context, value, step, timestamp_ms AS "timestampMs" FROM experiment_values
     WHERE experiment_id = $1 AND kind = $2 ORDER BY name`,
    [experimentId, kind],
  )
}

/** The text of a value, by its summary name. */
export async function findValue(
  queries: Queries,
  experimentId: bigint,
  kind: ValueKind,
  name: string,
): Promise<string | undefined> {
  const sql = 'SELECT value FROM experiment_values WHERE experiment_id = $1 AND kind = $2 AND name = $3'
  return (await queries.row<{ value: string }>(sql, [experimentId, kind, name]))?.value
}

/** Deletes a value by its summary name. @returns false when there is none */
export async function deleteValue(
  queries: Queries,
  experimentId: bigint,
  kind: ValueKind,
  name: string,
): Promise<boolean> {
  const sql = 'DELETE FROM experiment_values WHERE experiment_id = $1 AND kind = $2 AND name = $3 RETURNING 1'
  return (await queries.row(sql, [experimentId, kind, name])) !== undefined
}

/** Adds tags; existing ones stay. @throws ValuesFull */
export async function insertTags({ database, room }: RunStore, experimentId: bigint, tags: string[]): Promise<void> {
  await room.take(
    experimentId,
    tags.map((it) => ({ name: it, texts: [] })),
  )
  await database.row(
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
