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
  /** How often is looked for objects that could not be freed at once. */
  everyMs: number
  onError(error: unknown): void
}

/** The longest an upload may take. */
const uploadSecondsMax = 7 * 24 * 60 * 60
const freedAtOnce = 20

/**
 * Objects come and go with the assets that refer to them, over two stores of which each may fail alone. So an object is
 * written down as loose before it is stored, and is no longer so in the transaction that keeps its asset; when the asset
 * goes it is loose again. What is loose is freed at once, or, when that fails, a little later.
 */
export function createOrphanedObjects({ database, objects, everyMs, onError }: Deps) {
  const freeing = repeat({ everyMs, work: freeAll, onError })

  async function freeAll() {
    const freeSome = (keys: string[]) => Promise.all(keys.map((key) => objects.delete(key))).then(() => undefined)
    while ((await freeOrphanedObjects(database, freedAtOnce, freeSome)) === freedAtOnce);
  }

  return {
    /** To be called before an object is stored. */
    announce: (objectKey: string) => insertOrphanedObject(database, objectKey, uploadSecondsMax),

    /** To be called after assets have gone. Never fails: a later round frees what is left. */
    free: freeing.now,

    /** Frees an object that was announced and then not used. */
    async drop(objectKey: string) {
      await expireOrphanedObject(database, objectKey).catch(onError)
      await freeing.now()
    },

    close: freeing.close,
  }
}

export type OrphanedObjects = ReturnType<typeof createOrphanedObjects>
