import { createHash } from 'node:crypto'
import { createInterface } from 'node:readline'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import zlib from 'node:zlib'
import type { ObjectStore, StoredObject } from '../objects/object-store.ts'
import { type BackupFile, toFileKey } from './manifest.ts'

/** Writes the files of one backup and lists them. */
export function createFiles(target: ObjectStore, id: string) {
  const files: BackupFile[] = []
  return {
    files,

    /** Writes a stream to a file. */
    async put(name: string, content: Readable): Promise<StoredObject> {
      const stored = await target.put(toFileKey(id, name), content)
      files.push({ name, ...stored })
      return stored
    },

    /** Writes a stream compressed. Rejects when the stream fails, and then writes nothing. */
    async putCompressed(name: string, content: Readable): Promise<StoredObject> {
      const compressed = zlib.createZstdCompress()
      const [stored] = await Promise.all([this.put(name, compressed), pipeline(content, compressed)])
      return stored
    },

    /** Writes values as JSON lines. */
    putLines(name: string, values: AsyncIterable<unknown> | Iterable<unknown>): Promise<StoredObject> {
      return this.putCompressed(name, Readable.from(toLines(values), { objectMode: false }))
    },
  }
}

export type Files = ReturnType<typeof createFiles>

const chunkCharacters = 64 * 1024

/** Groups lines into chunks. */
async function* toLines(values: AsyncIterable<unknown> | Iterable<unknown>) {
  let chunk = ''
  for await (const value of values) {
    chunk += `${JSON.stringify(value)}\n`
    if (chunk.length < chunkCharacters) continue
    yield Buffer.from(chunk)
    chunk = ''
  }
  yield Buffer.from(chunk)
}

/** Reads a compressed file of a backup. */
export async function openCompressed(target: ObjectStore, id: string, name: string): Promise<Readable> {
  const content = await target.get(toFileKey(id, name))
  const opened = zlib.createZstdDecompress()
  pipeline(content, opened).catch((error: Error) => opened.destroy(error))
  return opened
}

/** Reads the values of a file of JSON lines. */
export async function* readLines<T>(target: ObjectStore, id: string, name: string): AsyncGenerator<T> {
  const content = await openCompressed(target, id, name)
  let readError: unknown
  content.once('error', (error) => {
    readError = error
  })
  for await (const line of createInterface({ input: content, crlfDelay: Number.POSITIVE_INFINITY })) {
    if (line !== '') yield JSON.parse(line) as T
  }
  if (readError) throw readError
}

/** Reads a stream to its end, and returns its size and hash. */
export async function measure(content: Readable): Promise<StoredObject> {
  const hash = createHash('sha256')
  let bytes = 0
  for await (const chunk of content) {
    bytes += (chunk as Buffer).length
    hash.update(chunk as Buffer)
  }
  return { bytes, sha256: hash.digest('hex') }
}
