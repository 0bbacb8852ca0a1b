import type { Readable } from 'node:stream'
import type { ObjectStore } from '../store/objects/object-store.ts'
import type { Asset } from '../store/postgres/assets.ts'
import { createZip } from './zip.ts'

/** Assets as one zip, made as it is read. Remote ones are not in it. */
export function createAssetZip(objects: ObjectStore, assets: Asset[]): Readable {
  return createZip(
    assets.flatMap(({ objectKey, fileName, size, createdAtMs }) =>
      objectKey === null
        ? []
        : [{ name: fileName, bytes: Number(size), atMs: Number(createdAtMs), open: () => objects.get(objectKey) }],
    ),
  )
}
