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

/** A backup holds this lock, so that objects which it refers to are not deleted. */
export const keepingLock = 7_392_006

/** The tables with a column `object_key`. A trigger adds the object of each deleted row to `loose_objects`. */
export const referrers = ['assets', 'artifact_files', 'panels', 'registry_files']

const isUnreferred = referrers
  .map((table) => `NOT EXISTS (SELECT 1 FROM ${table} WHERE ${table}.object_key = loose.object_key)`)
  .join(' AND ')

/**
 * Takes some objects whose time has come and frees those that nobody refers to. No other process takes the same ones, and
 * when `free` fails they are left for later.
 *
 * An object gets a further reference only while one that it has is locked, and that nobody has one is looked up after its
 * row was taken: so none is freed that somebody refers to, and who lets go of it meanwhile adds a row that is met again.
 *
 * @returns how many there were; none while a backup is made
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
      // As an array they are chosen once; with IN, Postgres may choose anew for every row of a table that has grown.
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
