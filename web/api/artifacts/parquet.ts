import { type QueryClient, queryOptions } from '@tanstack/react-query'
import { ApiError, readBytes } from '../http.ts'
import { type FilesOf, fileUrl, type Rows, type RowsAsked, readRows } from './files.ts'

export const isParquet = (fileName: string) => /\.(parquet|pq)$/i.test(fileName)

/** A file that holds a table. Of Parquet, columns beyond `columnsMax` are named only. */
type TableFile = { of: FilesOf; assetId: string; fileName: string; columnsMax: number }

export const tableRows = ({ of, assetId, fileName, columnsMax }: TableFile, asked: RowsAsked) =>
  queryOptions({
    queryKey: ['rows', of, assetId, asked],
    queryFn: async ({ client, signal }): Promise<Rows> => {
      if (!isParquet(fileName)) return await readRows(of, assetId, asked, signal)
      const { readParquetRows } = await import('./parquet-file.ts')
      return await readParquetRows(await findFile(client, of, assetId), { ...asked, columnsMax })
    },
    staleTime: Number.POSITIVE_INFINITY,
  })

/** The browser reads the footer of a Parquet file once, and then the parts that hold the rows, as ranges of bytes. */
const findFile = (client: QueryClient, of: FilesOf, assetId: string) =>
  client.ensureQueryData({
    queryKey: ['parquet-file', of, assetId],
    queryFn: async () => {
      const { openParquet } = await import('./parquet-file.ts')
      return await openParquet((range) => readRange(fileUrl(of, assetId), range))
    },
    staleTime: Number.POSITIVE_INFINITY,
  })

/** Some bytes of a file, and how many it has; `bytes=-8` are its last eight. */
async function readRange(address: string, range: string): Promise<{ bytes: ArrayBuffer; size: number }> {
  const answer = await readBytes(address, { headers: { range } }).catch((error: unknown) => {
    if (error instanceof ApiError && error.status === 416) return undefined
    throw error
  })
  if (!answer) return { bytes: new ArrayBuffer(0), size: 0 }
  const bytes = await answer.arrayBuffer()
  const [, size] = /\/(\d+)$/.exec(answer.headers.get('content-range') ?? '') ?? []
  return { bytes, size: size === undefined ? bytes.byteLength : Number(size) }
}
