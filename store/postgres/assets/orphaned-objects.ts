import type { Database, Queries } from '../database.ts'

/** Announces an object before it is stored: it is deleted unless an asset refers to it within `forSeconds`. */
export async function insertOrphanedObject(queries: Queries, objectKey: string, forSeconds: number): Promise<void> {
  await queries.row(
    `INSERT INTO loose_objects (object_key, free_after) VALUES ($1, now() + make_interval(secs => $2))`,
    [objectKey, forSeconds],
  )
}

/** Marks an object for deletion now. */
export async function expireOrphanedObject(queries: Queries, objectKey: string): Promise<void> {
  await queries.row('UPDATE loose_objects SET free_after = now() WHERE object_key = $1', [objectKey])
}

/** A backup holds this lock, so that no object it refers to is deleted. */
export const keepingLock = 7_392_006

/** The tables with a column `object_key`. A trigger adds the object of each deleted row to `loose_objects`. */
export const referrers = ['assets', 'artifact_files', 'panels', 'registry_files']

const isUnreferred = referrers
  .map((table) => `NOT EXISTS (SELECT 1 FROM ${table} WHERE ${table}.object_key = loose.object_key)`)
  .join(' AND ')

/**
 * Deletes orphaned objects that are due, with `free`. No other process takes the same ones; if `free` fails, they are tried
 * again later.
 *
 * A new reference to an object is added only while an existing one is locked, and references are looked up after the
 * object's row was taken. So no referenced object is deleted, and a reference that is dropped meanwhile adds a new row for
 * a later call.
 *
 * @returns how many there were; 0 while a backup runs
 */
export async function freeOrphanedObjects(
  database: Database,
  atOnce: number,
  free: (objectKeys: string[]) => Promise<void>,
): Promise<number> {
  return await database.transaction(async (queries) => {
    const mayFree = await queries.row<{ isHeld: boolean }>('SELECT pg_try_advisory_xact_lock_shared($1) AS "isHeld"', [
      keepingLock,
    ])
    if (!mayFree?.isHeld) return 0
    const taken = await queries.rows<{ objectKey: string }>(
      // As an array they are selected once; with IN, Postgres may evaluate the subquery again for every row of a large
      // table.
      `DELETE FROM loose_objects WHERE id = ANY (ARRAY(
         SELECT id FROM loose_objects WHERE free_after <= now() ORDER BY free_after LIMIT $1
         FOR UPDATE SKIP LOCKED))
       RETURNING object_key AS "objectKey"`,
      [atOnce],
    )
    const unreferred = await queries.rows<{ objectKey: string }>(
      `SELECT DISTINCT object_key AS "objectKey" FROM unnest($1::text[]) AS loose(object_key) WHERE ${isUnreferred}`,
      [taken.map((it) => it.objectKey)],
    )
    await free(unreferred.map((it) => it.objectKey))
    return taken.length
  })
}
