import { Readable } from 'node:stream'

/** A JSON text whose middle part was written elsewhere. */
export function wrapJson(before: string, middle: string | Readable, after: string): string | Readable {
  if (typeof middle === 'string') return `${before}${middle}${after}`
  return Readable.from(
    (async function* () {
      yield before
      yield* middle
      yield after
    })(),
    { objectMode: false },
  )
}
