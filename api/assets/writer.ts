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
import { toArtifactRefusal } from '../artifacts/access.ts'
import type { createAssetLimits } from './limits.ts'
import type { OrphanedObjects } from './orphaned-objects.ts'

type Deps = {
  database: Database
  objects: ObjectStore
  orphanedObjects: OrphanedObjects
  limits: ReturnType<typeof createAssetLimits>
}

/** A file whose bytes are stored, and that no asset refers to yet. */
export type ReceivedFile = StoredObject & Pick<IncomingFile, 'fileName' | 'contentType'> & { objectKey: string }

type Received = { fields: Record<string, string>; file: ReceivedFile | undefined }

/** What a file must be to be kept. */
type FileRules = {
  fileBytesMax?: number
  /** Lets a content through, or fails it. */
  check?: (content: Readable) => Readable
}

/** What an asset is kept with, besides where its bytes are; what is absent has no value. */
export type AssetFields = Pick<NewAsset, 'fileName' | 'type' | 'contentType'> &
  Partial<Omit<NewAsset, 'size' | 'nowMs' | 'objectKey' | 'sha256' | 'link'>>

/** Where its bytes are. */
export type AssetPlace = ReceivedFile | { link: string }

/** Takes files in and keeps assets; what ends up with no asset is freed again. */
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

  /** Runs `use` with a file, which is freed again when `use` fails. */
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
     * Runs `use` with the upload of a request. Nothing of it is read before `receive` is called, so that who may not
     * send it costs nothing; it may be called twice.
     */
    async withUpload<T>(
      request: IncomingMessage,
      use: (receive: () => Promise<Received>) => Promise<T>,
      { fileBytesMax = limits.fileBytesMax, check }: FileRules = {},
    ): Promise<T> {
      let received: Promise<Received> | undefined
      const receive = () => {
        received ??= readUpload(request, { keep: (file) => store(file, check), discard: drop, fileBytesMax })
        return received
      }
      return await using(
        async () => (await received)?.file,
        () => use(receive),
      )
    },

    /** Runs `use` with a text as if it had been uploaded. */
    async withText<T>(text: string, use: (file: ReceivedFile) => Promise<T>): Promise<T> {
      const content = Readable.from([Buffer.from(text)])
      const file = await store({ content, fileName: undefined, contentType: undefined })
      return await using(
        async () => file,
        () => use(file),
      )
    },

    /**
     * Keeps assets, all or none, and answers their ids.
     *
     * @throws HttpError when a limit is reached
     */
    async keep(experiment: Experiment, assets: { fields: AssetFields; place: AssetPlace }[]): Promise<string[]> {
      const made = assets.map(({ fields, place }) => toNewAsset(fields, place))
      const bytes = made.reduce((sum, it) => sum + it.size, 0)
      await limits.checkWorkspace(experiment, bytes)
      try {
        await insertAssets(database, experiment.id, made, limits.ofTypeMax)
      } catch (error) {
        if (error instanceof TooManyAssets) throw limits.tooMany(error.type)
        throw toFinalRefusal(error)
      }
      // Of those that were replaced.
      await orphanedObjects.free()
      return made.map((it) => it.id)
    },

    /** Frees a file that came and was not asked for. */
    drop,
  }
}

export type AssetWriter = ReturnType<typeof createAssetWriter>

/** An asset of a closed artifact version stays as it is; other errors too. */
export function toFinalRefusal(error: unknown): unknown {
  if (!(error instanceof FinalAsset)) return toArtifactRefusal(error)
  const refusal = error.type === 'image' ? 'imageFinal' : 'assetFinal'
  return new HttpError(refusal, 'assetId: the asset belongs to a closed artifact version, whose files stay the same')
}

function toNewAsset(fields: AssetFields, place: AssetPlace): NewAsset {
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
  if ('link' in place) return { ...common, size: 0, link: place.link }
  return { ...common, size: place.bytes, objectKey: place.objectKey, sha256: place.sha256 }
}
