import { createHash } from 'node:crypto'
import { type Readable, Transform } from 'node:stream'

/** What a stored object turned out to be. */
export type StoredObject = {
  bytes: number
  /** In hex. */
  sha256: string
}

/** What a store says of an object without reading it; `etag` changes with the content, where the store has such a thing. */
export type ListedObject = { key: string; bytes: number; etag?: string }

/** The first and the last byte, both included. */
export type ByteRange = { start: number; end: number }

/**
 * Keeps the bytes of assets under keys that its callers make up (see `object-key.ts`). A store that cannot be reached
 * fails with an error named `StoreAway`.
 */
export type ObjectStore = {
  /** Keeps all that the stream gives; when the stream or the store fails, nothing is kept. */
  put(key: string, content: Readable): Promise<StoredObject>
  /** Fails when there is no such object; the stream fails when the store goes away meanwhile. */
  get(key: string, range?: ByteRange): Promise<Readable>
  /** An object that is not there is fine. */
  delete(key: string): Promise<void>
  /** The objects whose keys begin so, in no order. */
  list(prefix: string): AsyncIterable<ListedObject>
  /** Resolves when objects can be kept and read. */
  check(): Promise<void>
  close(): Promise<void>
}

/** Lets a stream through, and tells what it was once it has ended. */
export function createMeasure(): { through: Transform; result(): StoredObject } {
  const hash = createHash('sha256')
  let bytes = 0
  const through = new Transform({
    transform(chunk: Buffer, _encoding, done) {
      bytes += chunk.length
      hash.update(chunk)
      done(null, chunk)
    },
  })
  return { through, result: () => ({ bytes, sha256: hash.digest('hex') }) }
}

/** A fault of the store itself, and nobody's who uses it: the same call may work in a moment. */
export function storeAway(cause: unknown): Error {
  const error = new Error('the object store cannot be used', { cause })
  error.name = 'StoreAway'
  return error
}
