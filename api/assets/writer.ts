import { randomUUID } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { Readable } from 'node:stream'
import { type IncomingFile, readUpload } from '../../http/body/upload.ts'
import { HttpError } from '../../http/errors.ts'
import { createObjectKey } from '../../store/objects/object-key.ts'
import type { ObjectStore, StoredObject } from '../../store/objects/object-store.ts'
import { FinalAsset, insertAssets, type NewAsset, TooManyAssets } from '../../store/postgres/assets/assets.ts'
import type { Database } from '../../store/postgres/database.ts'
import type { Experiment } from '../../store/postgres/experiments/experiments.ts'
import { toArtifactError } from '../artifacts/access.ts'
import type { createAssetLimits } from './limits.ts'
import type { OrphanedObjects } from './orphaned-objects.ts'

type Deps = {
  database: Database
  objects: ObjectStore
  orphanedObjects: OrphanedObjects
  limits: ReturnType<typeof createAssetLimits>
}

/** A stored file that no asset refers to yet. */
export type ReceivedFile = StoredObject & Pick<IncomingFile, 'fileName' | 'contentType'> & { objectKey: string }

type Received = { fields: Record<string, string>; file: ReceivedFile | undefined }

type FileRules = {
  fileBytesMax?: number
  /** The part of the form that is the file, when it is not `file`. */
  filePart?: string
  /** Passes a content through, or fails it. */
  check?: (content: Readable) => Readable
}

/** The fields of a new asset, without its location. */
export type AssetFields = Pick<NewAsset, 'fileName' | 'type' | 'contentType'> &
  Partial<Omit<NewAsset, 'size' | 'nowMs' | 'objectKey' | 'sha256' | 'link'>>

/** A stored file, or the link of a remote asset. */
export type AssetLocation = ReceivedFile | { link: string }

/** Stores files and inserts assets. A file that gets no asset is deleted again. */
export function createAssetWriter({ database, objects, orphanedObjects, limits }: Deps) {
  async function store({ content, fileName, contentType }: IncomingFile, check?: FileRules['check']) {
    const objectKey = createObjectKey()
    try {
      await orphanedObjects.announce(objectKey)
      const stored = await objects.put(objectKey, check ? check(content) : content)
      return { objectKey, fileName, contentType, ...stored }
    } catch (error) {
      content.destroy()
      await orphanedObjects.drop(objectKey)
      throw error
    }
  }

  const drop = (file: ReceivedFile) => orphanedObjects.drop(file.objectKey)

  /** Runs `use`, and deletes the file if `use` fails. */
  async function using<T>(receive: () => Promise<ReceivedFile | undefined>, use: () => Promise<T>): Promise<T> {
    try {
      return await use()
    } catch (error) {
      const file = await receive().catch(() => undefined)
      if (file) await drop(file)
      throw error
    }
  }

  return {
    /**
     * Runs `use` with the upload of a request. `receive` reads the upload: call it after the permission checks. It may be
     * called twice.
     */
    async withUpload<T>(
      request: IncomingMessage,
      use: (receive: () => Promise<Received>) => Promise<T>,
      { fileBytesMax = limits.fileBytesMax, filePart, check }: FileRules = {},
    ): Promise<T> {
      let received: Promise<Received> | undefined
      const receive = () => {
        received ??= readUpload(request, { keep: (file) => store(file, check), discard: drop, fileBytesMax, filePart })
        return received
      }
      return await using(
        async () => (await received)?.file,
        () => use(receive),
      )
    },

    /** Runs `use` with a text, stored like an uploaded file. */
    async withText<T>(text: string, use: (file: ReceivedFile) => Promise<T>): Promise<T> {
      const content = Readable.from([Buffer.from(text)])
      const file = await store({ content, fileName: undefined, contentType: undefined })
      return await using(
        async () => file,
        () => use(file),
      )
    },

    /**
     * Inserts assets, all or none, and returns their ids.
     *
     * @throws HttpError when a limit is reached
     */
    async keep(experiment: Experiment, assets: { fields: AssetFields; location: AssetLocation }[]): Promise<string[]> {
      const made = assets.map(({ fields, location }) => toNewAsset(fields, location))
      const bytes = made.reduce((sum, it) => sum + it.size, 0)
      await limits.checkWorkspace(experiment, bytes)
      try {
        await insertAssets(database, experiment.id, made, limits.ofTypeMax)
      } catch (error) {
        if (error instanceof TooManyAssets) throw limits.tooMany(error.type)
        throw toFinalError(error)
      }
      // The objects of replaced assets.
      await orphanedObjects.free()
      return made.map((it) => it.id)
    },

    /** Deletes a received file that no asset will use. */
    drop,
  }
}

export type AssetWriter = ReturnType<typeof createAssetWriter>

/** Turns a change of an asset in a closed artifact version into an HTTP error; other errors stay the same. */
export function toFinalError(error: unknown): unknown {
  if (!(error instanceof FinalAsset)) return toArtifactError(error)
  const kind = error.type === 'image' ? 'imageFinal' : 'assetFinal'
  return new HttpError(kind, 'assetId: the asset belongs to a closed artifact version, whose files stay the same')
}

function toNewAsset(fields: AssetFields, location: AssetLocation): NewAsset {
  const common = {
    step: undefined,
    epoch: undefined,
    context: undefined,
    source: undefined,
    metadata: undefined,
    groupingName: undefined,
    ...fields,
    artifactVersionId: fields.artifactVersionId || undefined,
    id: fields.id ?? randomUUID().replaceAll('-', ''),
    tags: fields.tags ?? [],
    overwrite: fields.overwrite ?? false,
    nowMs: Date.now(),
  }
  if ('link' in location) return { ...common, size: 0, link: location.link }
  return { ...common, size: location.bytes, objectKey: location.objectKey, sha256: location.sha256 }
}
