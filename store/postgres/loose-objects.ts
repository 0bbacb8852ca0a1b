import type { Database, Queries } from './database.ts'

/** Announces an object before it is stored: unless an asset refers to it within `forSeconds`, it is freed. */
export async function insertLooseObject(queries: Queries, objectKey: string, forSeconds: number): Promise<void> {
  await queries.row(
    `INSERT INTO loose_objects (object_key, free_after) VALUES ($1, now() + make_interval(secs => $2))`,
    [objectKey, forSeconds],
  )
}

/** Lets an object be freed now. */
export async function expireLooseObject(queries: Queries, objectKey: string): Promise<void> {
  await queries.row('UPDATE loose_objects SET free_after = now() WHERE object_key = $1', [objectKey])
}

/**
 * Takes some objects whose time has come and frees them. No other process takes the same ones, and no asset can come to
 * refer to one of them; when `free` fails they are left for later.
 *
 * @returns how many there were
 */
export async function freeLooseObjects(
  database: Database,
  atOnce: number,
  free: (objectKeys: string[]) => Promise<void>,
): Promise<number> {
  return await database.transaction(async (queries) => {
    const taken = await queries.rows<{ objectKey: string }>(
      `DELETE FROM loose_objects WHERE object_key IN (
         SELECT object_key FROM loose_objects WHERE free_after <= now() ORDER BY free_after LIMIT $1
         FOR UPDATE SKIP LOCKED)
       RETURNING object_key AS "objectKey"`,
      [atOnce],
    )
    await free(taken.map((it) => it.objectKey))
    return taken.length
  })
}
