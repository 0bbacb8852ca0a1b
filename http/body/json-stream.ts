import { Readable } from 'node:stream'

/** A JSON text of which the middle part is already written elsewhere and streams through. */
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
