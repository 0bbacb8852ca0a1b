import { createHash } from 'node:crypto'
import { createInterface } from 'node:readline'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import zlib from 'node:zlib'
import type { ObjectStore, StoredObject } from '../objects/object-store.ts'
import { type BackupFile, toFileKey } from './manifest.ts'

/** Writes the files of one backup and keeps account of them. */
export function createFiles(target: ObjectStore, id: string) {
  const files: BackupFile[] = []
  return {
    files,

    /** Keeps a stream as a file. */
    async put(name: string, content: Readable): Promise<StoredObject> {
      const stored = await target.put(toFileKey(id, name), content)
      files.push({ name, ...stored })
      return stored
    },

    /** Keeps a stream compressed. When the stream fails, so does this, and nothing is kept. */
    async putCompressed(name: string, content: Readable): Promise<StoredObject> {
      const compressed = zlib.createZstdCompress()
      const [stored] = await Promise.all([this.put(name, compressed), pipeline(content, compressed)])
      return stored
    },

    /** Keeps values, a line of JSON each. */
    putLines(name: string, values: AsyncIterable<unknown> | Iterable<unknown>): Promise<StoredObject> {
      return this.putCompressed(name, Readable.from(toLines(values), { objectMode: false }))
    },
  }
}

export type Files = ReturnType<typeof createFiles>

const chunkCharacters = 64 * 1024

/** Some lines at a time. */
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

/** The values of a file of lines. */
export async function* readLines<T>(target: ObjectStore, id: string, name: string): AsyncGenerator<T> {
  const content = await openCompressed(target, id, name)
  let fault: unknown
  content.once('error', (error) => {
    fault = error
  })
  for await (const line of createInterface({ input: content, crlfDelay: Number.POSITIVE_INFINITY })) {
    if (line !== '') yield JSON.parse(line) as T
  }
  if (fault) throw fault
}

/** What a stream turned out to be. */
export async function measure(content: Readable): Promise<StoredObject> {
  const hash = createHash('sha256')
  let bytes = 0
  for await (const chunk of content) {
    bytes += (chunk as Buffer).length
    hash.update(chunk as Buffer)
  }
  return { bytes, sha256: hash.digest('hex') }
}
