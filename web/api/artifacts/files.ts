import { queryOptions } from '@tanstack/react-query'
import { read, readBytes, toAddress } from '../http.ts'

/** Whose files: those of a run, or of an artifact version. */
export type FilesOf = { experimentKey: string } | { versionId: string }

export type File = {
  assetId: string
  fileName: string
  type: string
  contentType: string
  fileSize: number
  step: number | null
  context: string | null
  metadata: string | null
  remote: boolean
  link: string | null
  createdAt: number
}

/** A folder, with all that is below it. */
type Folder = { name: string; files: number; bytes: number }

export type Level = {
  folder: string
  folders: Folder[]
  files: File[]
  entries: number
  filesBelow: number
  bytesBelow: number
  nextPage: string | null
}

const isOfRun = (of: FilesOf): of is { experimentKey: string } => 'experimentKey' in of

/** Reads of a run are below one key, so that they are read again while it goes on. */
export const treeKey = (of: FilesOf, ...rest: unknown[]) =>
  isOfRun(of) ? ['run', of.experimentKey, 'tree', ...rest] : ['artifact-tree', of.versionId, ...rest]

type Asked = { folder?: string; search?: string; assetId?: string; page?: string; pageSize?: number }

export const readLevel = (of: FilesOf, asked: Asked, signal?: AbortSignal) =>
  read<Level>(isOfRun(of) ? '/experiment/asset/tree' : '/artifacts/version/tree', { ...of, ...asked }, { signal })

/** One file; undefined when it is gone. */
export const file = (of: FilesOf, assetId: string) =>
  queryOptions({
    queryKey: treeKey(of, 'file', assetId),
    queryFn: async ({ signal }) => (await readLevel(of, { assetId }, signal)).files[0] ?? null,
  })

const toQuery = (of: FilesOf, assetId: string) =>
  isOfRun(of) ? { ...of, assetId } : { artifactVersionId: of.versionId, assetId }

export const fileUrl = (of: FilesOf, assetId: string) => toAddress('/experiment/asset/get-asset', toQuery(of, assetId))

/** The address of an HTML file as a page in a sandbox. */
export const pageUrl = (of: FilesOf, assetId: string) => toAddress('/experiment/asset/page', toQuery(of, assetId))

/** The address of a folder as a zip; of a version all files. */
export const zipUrl = (of: FilesOf, folder = '') =>
  isOfRun(of)
    ? toAddress('/experiment/asset/zip', { ...of, folder: folder || undefined })
    : toAddress('/artifacts/version/download', of)

/** The bytes of a file, or the first of them. Their type is what the page takes them for, not what the file says. */
export const fileBytes = (of: FilesOf, assetId: string, bytesMax?: number) =>
  queryOptions({
    queryKey: ['file', of, assetId, bytesMax],
    queryFn: async ({ signal }) => {
      const headers = bytesMax === undefined ? undefined : { range: `bytes=0-${bytesMax - 1}` }
      return (await readBytes(fileUrl(of, assetId), { signal, headers })).blob()
    },
    staleTime: Number.POSITIVE_INFINITY,
  })

export type Rows = {
  header: boolean
  columns: string[]
  total: number
  from: number
  rows: (string | null)[][]
  cut: { row: number; column: number; characters: number }[]
}

export type RowsAsked = { from: number; count: number; header?: boolean; cellCharactersMax?: number }

/** Rows of a table of text. The service reads them out of the file. */
export const readRows = (of: FilesOf, assetId: string, asked: RowsAsked, signal?: AbortSignal) =>
  read<Rows>('/experiment/asset/rows', { ...toQuery(of, assetId), ...asked }, { signal })
