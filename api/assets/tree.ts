import { z } from 'zod'
import { toJsonInteger } from '../../http/body/exact-json.ts'
import { experimentKey, object, optional, pageFields, text } from '../../http/body/fields.ts'
import { HttpError } from '../../http/errors.ts'
import { type Route, route } from '../../http/route.ts'
import type { ObjectStore } from '../../store/objects/object-store.ts'
import type { Asset } from '../../store/postgres/assets/assets.ts'
import { listFilesBelow, listLevel, searchFiles, type TreeOf } from '../../store/postgres/assets/tree.ts'
import type { Queries } from '../../store/postgres/database.ts'
import type { Access } from '../access.ts'
import { type ArtifactAccess, versionQuery } from '../artifacts/access.ts'
import { artifactTopic } from '../artifacts/artifacts.ts'
import { assetTopic } from './assets.ts'
import { sendZip } from './download.ts'
import { assetId } from './fields.ts'
import { toNextPage } from './media.ts'

const pageSizeMax = 1_000
const pageSizeDefault = 500

const folder = optional(text(2_100)).describe('the path of a folder, such as a/b; absent: the top')

const treeFields = {
  folder,
  search: optional(text(1_000)).describe('a part of a path, in any case: lists the files at any place instead'),
  assetId: optional(assetId).describe('lists this file only'),
  ...pageFields(pageSizeMax),
}

const treeAnswer = z.object({
  folder: z.string(),
  folders: z.array(
    z.object({
      name: z.string(),
      files: z.int().describe('with those in its folders'),
      bytes: z.int(),
    }),
  ),
  files: z.array(
    z.object({
      assetId: z.string(),
      fileName: z.string(),
      type: z.string(),
      contentType: z.string(),
      fileSize: z.int(),
      sha256: z.string().nullable().describe('in hex; null for a remote file'),
      step: z.int().nullable(),
      context: z.string().nullable(),
      metadata: z.string().nullable(),
      remote: z.boolean(),
      link: z.string().nullable().describe('the address of a remote file'),
      createdAt: z.int().describe('ms since the Unix epoch'),
    }),
  ),
  entries: z.int().describe('folders and files of this list, on all pages'),
  filesBelow: z.int().describe('files in this folder and those in it'),
  bytesBelow: z.int(),
  nextPage: z.string().nullable().describe('the `page` to request next; null: this was the last one'),
})

type Asked = {
  folder?: string | undefined
  search?: string | undefined
  assetId?: string | undefined
  page?: string | undefined
  pageSize?: number | undefined
}

type Deps = { reads: Queries; objects: ObjectStore; access: Access; artifacts: ArtifactAccess }

/** The files of an experiment or of an artifact version as folders, a level at a time. */
export function createTreeRoutes({ reads, objects, access, artifacts }: Deps): Route[] {
  async function readTree(of: TreeOf, asked: Asked): Promise<z.input<typeof treeAnswer>> {
    const { search = '', assetId, page = '0', pageSize = pageSizeDefault } = asked
    const folder = toFolder(asked.folder)
    const slice = { skip: Number(page), limit: pageSize }
    if (search !== '' || assetId !== undefined) {
      const found = await searchFiles(reads, of, { search, assetId, ...slice })
      return {
        folder: '',
        folders: [],
        files: found.files.map(toFile),
        entries: found.total,
        filesBelow: found.total,
        bytesBelow: toJsonInteger(found.bytes),
        nextPage: toNextPage(slice.skip, found.files.length, found.total),
      }
    }
    const level = await listLevel(reads, of, { folder, ...slice })
    return {
      folder,
      folders: level.folders.map((it) => ({ ...it, bytes: toJsonInteger(it.bytes) })),
      files: level.files.map(toFile),
      entries: level.entries,
      filesBelow: level.filesBelow,
      bytesBelow: toJsonInteger(level.bytesBelow),
      nextPage: toNextPage(slice.skip, level.folders.length + level.files.length, level.entries),
    }
  }

  return [
    route({
      method: 'GET',
      path: '/experiment/asset/tree',
      permission: 'reader',
      topic: assetTopic,
      summary:
        'Lists a folder of the files of an experiment, a page at a time: its folders with their sizes, then its files. ' +
        'Files of a model are in models/<its name>.',
      query: object({ experimentKey, ...treeFields }),
      answer: treeAnswer,
      shape: 'plain',
      async handle({ query: { experimentKey: key, ...asked }, caller }) {
        const experiment = await access.experiment(caller, key)
        return await readTree({ experimentId: experiment.id }, asked)
      },
    }),

    route({
      method: 'GET',
      path: '/experiment/asset/zip',
      permission: 'reader',
      topic: assetTopic,
      summary: 'Reads the files of an experiment, or of one of its folders, as a zip, without remote files.',
      query: object({ experimentKey, folder }),
      answer: z.file(),
      shape: 'bytes',
      async handle({ query, caller, reply }) {
        const experiment = await access.experiment(caller, query.experimentKey)
        const folder = toFolder(query.folder)
        const files = await listFilesBelow(reads, { experimentId: experiment.id }, folder)
        if (files.length === 0) {
          throw new HttpError('badRequest', 'folder: holds no file; see /experiment/asset/tree')
        }
        const name = folder.split('/').at(-1) || experiment.name || experiment.key
        return sendZip(
          reply,
          objects,
          name,
          files.map((it) => ({ ...it, fileName: it.path })),
        )
      },
    }),

    route({
      method: 'GET',
      path: '/artifacts/version/tree',
      permission: 'caller',
      topic: artifactTopic,
      summary:
        'Lists a folder of the files of a version, a page at a time: its folders with their sizes, then its files.',
      query: object({ ...versionQuery.shape, ...treeFields }),
      answer: treeAnswer,
      shape: 'plain',
      async handle({ query: { folder, search, assetId, page, pageSize, ...query }, caller }) {
        const { version } = await artifacts.version(caller, query)
        return await readTree({ artifactVersionId: version.id }, { folder, search, assetId, page, pageSize })
      },
    }),
  ]
}

const toFolder = (given: string | undefined) => (given ?? '').replace(/\/+/g, '/').replace(/^\/|\/$/g, '')

function toFile(file: Asset): z.input<typeof treeAnswer>['files'][number] {
  return {
    assetId: file.id,
    fileName: file.fileName,
    type: file.type,
    contentType: file.contentType,
    fileSize: toJsonInteger(file.size),
    sha256: file.sha256,
    step: file.step === null ? null : toJsonInteger(file.step),
    context: file.context,
    metadata: file.metadata,
    remote: file.link !== null,
    link: file.link,
    createdAt: toJsonInteger(file.createdAtMs),
  }
}
