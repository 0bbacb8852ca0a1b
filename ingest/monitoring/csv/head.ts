import type { Readable } from 'node:stream'

/** Fields may follow a file up to this size: its bytes are held until the fields are known. */
const headBytesMax = 1024 * 1024

/**
 * Reads the first MiB of a file.
 *
 * @returns whether that is all of it, and the whole content from its beginning
 */
export async function readHead(file: Readable): Promise<{ isWhole: boolean; content: AsyncIterable<Buffer> }> {
  const chunks = file[Symbol.asyncIterator]() as AsyncIterator<Buffer>
  const head: Buffer[] = []
  let bytes = 0
  let isWhole = false
  while (bytes < headBytesMax && !isWhole) {
    const { value, done } = await chunks.next()
    isWhole = done === true
    if (isWhole) break
    head.push(value)
    bytes += value.length
  }
  async function* all() {
    try {
      yield* head.splice(0)
      for (;;) {
        const { value, done } = await chunks.next()
        if (done) return
        yield value
      }
    } finally {
      await chunks.return?.()
    }
  }
  return { isWhole, content: all() }
}
