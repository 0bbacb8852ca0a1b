import { createHash } from 'node:crypto'
import { type Readable, Transform } from 'node:stream'

/** The size and hash of a stored object. */
export type StoredObject = {
  bytes: number
  /** In hex. */
  sha256: string
}

/** A listed object; `etag` changes with the content, if the store has ETags. */
export type ListedObject = { key: string; bytes: number; etag?: string }

/** The first and the last byte, inclusive. */
export type ByteRange = { start: number; end: number }

/**
 * Stores the bytes of assets under keys chosen by the caller (see `object-key.ts`). All calls reject with an error named
 * `StoreAway` when the store is unreachable.
 */
export type ObjectStore = {
  /** Stores the whole stream, or nothing if the stream or the store fails. */
  put(key: string, content: Readable): Promise<StoredObject>
  /** Rejects if the object does not exist. The stream fails if the store goes down meanwhile. */
  get(key: string, range?: ByteRange): Promise<Readable>
  /** Succeeds too if the object does not exist. */
  delete(key: string): Promise<void>
  /** The objects whose keys begin with the prefix, unordered. */
  list(prefix: string): AsyncIterable<ListedObject>
  /** Resolves when objects can be stored and read. */
  check(): Promise<void>
  close(): Promise<void>
}

/** Measures a stream that passes through; `result` is valid once it has ended. */
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

/** An error of the store, not of its caller: the same call may succeed in a moment. */
export function storeAway(cause: unknown): Error {
  const error = new Error('the object store cannot be used', { cause })
  error.name = 'StoreAway'
  return error
}
