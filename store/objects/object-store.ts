import { createHash } from 'node:crypto'
import { type Readable, Transform } from 'node:stream'

/** The size and hash of a stored object. */
export type StoredObject = {
  bytes: number
  /** In hex. */
  sha256: string
}

/** What a store lists of an object; `etag` changes with the content, in stores that have it. */
export type ListedObject = { key: string; bytes: number; etag?: string }

/** The first and the last byte, both included. */
export type ByteRange = { start: number; end: number }

/**
 * Stores the bytes of assets under keys that its callers choose (see `object-key.ts`). All calls fail with an error named
 * `StoreAway` when the store cannot be reached.
 */
export type ObjectStore = {
  /** Stores the whole stream, or nothing when the stream or the store fails. */
  put(key: string, content: Readable): Promise<StoredObject>
  /** Fails when there is no such object. The stream fails when the store goes away meanwhile. */
  get(key: string, range?: ByteRange): Promise<Readable>
  /** Succeeds when there is no such object. */
  delete(key: string): Promise<void>
  /** The objects whose keys begin with the prefix, in no order. */
  list(prefix: string): AsyncIterable<ListedObject>
  /** Resolves when objects can be stored and read. */
  check(): Promise<void>
  close(): Promise<void>
}

/** Passes a stream through and measures it; `result` holds once it has ended. */
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
