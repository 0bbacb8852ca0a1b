import { Readable } from 'node:stream'

/** Waits until work may go on for so many ms; what it returns ends that earlier. */
export type TakeSlice = (sliceMs: number, signal: AbortSignal) => Promise<() => void>

const sliceMsMax = 100
/** Until the answer begins, which may take far longer. */
export const firstSliceMs = 1_000

/**
 * A stream that is read in slices of time. While it waits for the next one, ClickHouse fills its buffers and then pauses the query.
 * An error of the stream is one of the result.
 */
export function paceStream(stream: Readable, takeSlice: TakeSlice, signal: AbortSignal): Readable {
  async function* read() {
    let untilMs = 0
    for await (const chunk of stream) {
      if (performance.now() > untilMs) {
        await takeSlice(sliceMsMax, signal)
        untilMs = performance.now() + sliceMsMax
      }
      yield chunk
    }
  }
  return Readable.from(read(), { objectMode: false })
}
