import { repeat } from '../../runtime/poll.ts'
import type { ObjectStore } from '../../store/objects/object-store.ts'
import {
  expireOrphanedObject,
  freeOrphanedObjects,
  insertOrphanedObject,
} from '../../store/postgres/assets/orphaned-objects.ts'
import type { Database } from '../../store/postgres/database.ts'

type Deps = {
  database: Database
  objects: ObjectStore
  /** How often objects that could not be deleted at once are tried again. */
  everyMs: number
  onError(error: unknown): void
}

/** The longest an upload may take. */
const uploadSecondsMax = 7 * 24 * 60 * 60
const freedAtOnce = 20

/**
 * Deletes objects that no asset refers to. Assets are in Postgres and their bytes in the object store, and each can fail
 * alone. So an object is recorded as orphaned before it is stored; the transaction that inserts its asset removes the record,
 * and the one that deletes the asset adds it again. Orphaned objects are deleted at once, or later if that fails.
 */
export function createOrphanedObjects({ database, objects, everyMs, onError }: Deps) {
  const freeing = repeat({ everyMs, work: freeAll, onError })

  async function freeAll() {
    const freeSome = (keys: string[]) => Promise.all(keys.map((key) => objects.delete(key))).then(() => undefined)
    while ((await freeOrphanedObjects(database, freedAtOnce, freeSome)) === freedAtOnce);
  }

  return {
    /** Records an object as orphaned. Call it before the object is stored. */
    announce: (objectKey: string) => insertOrphanedObject(database, objectKey, uploadSecondsMax),

    /** Deletes orphaned objects. Call it after assets were deleted. Never fails: it tries again later. */
    free: freeing.now,

    /** Deletes an announced object that no asset uses. */
    async drop(objectKey: string) {
      await expireOrphanedObject(database, objectKey).catch(onError)
      await freeing.now()
    },

    close: freeing.close,
  }
}

export type OrphanedObjects = ReturnType<typeof createOrphanedObjects>
