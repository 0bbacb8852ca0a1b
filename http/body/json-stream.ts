import { Readable } from 'node:stream'

/** A JSON text whose middle part is a stream of JSON written elsewhere. */
export function wrapStream(before: string, middle: Readable, after: string): Readable {
  return Readable.from(
    (async function* () {
      yield before
      yield* middle
      yield after
    })(),
    { objectMode: false },
  )
}
