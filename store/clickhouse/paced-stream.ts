import { Readable } from 'node:stream'

/** Waits until work may go on for so many ms; what it returns ends that earlier. */
export type TakeSlice = (sliceMs: number, signal: AbortSignal) => Promise<() => void>

const sliceMsMax = 100
/**
 * What the system buffers between ClickHouse and us. So far the query runs ahead of its reader, and no slice holds it: it has the
 * first one until it has ended or been read beyond that.
 */
const aheadBytesMax = 16 * 1024 ** 2
export const firstSliceMs = 3_000

/**
 * A stream that is read in slices of time. While it waits for the next one, ClickHouse fills the buffers and then pauses the query.
 * An error of the stream is one of the result.
 *
 * @param endFirst ends the first slice, which was taken when the query began
 */
export function paceStream(
  stream: Readable,
  { takeSlice, endFirst, signal }: { takeSlice: TakeSlice; endFirst: () => void; signal: AbortSignal },
): Readable {
  async function* read() {
    let bytesRead = 0
    let untilMs = Number.POSITIVE_INFINITY
    try {
      for await (const chunk of stream) {
        bytesRead += chunk.length
        if (untilMs === Number.POSITIVE_INFINITY && bytesRead > aheadBytesMax) {
          endFirst()
          untilMs = 0
        }
        if (performance.now() > untilMs) {
          await takeSlice(sliceMsMax, signal)
          untilMs = performance.now() + sliceMsMax
        }
        yield chunk
      }
    } finally {
      endFirst()
    }
  }
  const paced = Readable.from(read(), { objectMode: false })
  // Whoever is destroyed before it was read has not begun.
  paced.once('close', endFirst)
  return paced
}
