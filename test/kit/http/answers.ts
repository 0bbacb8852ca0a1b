/** One answer as it came over the wire. */
export type Answer = { status: number; head: string; body: string }

/** `more`: the rest is still to come. `torn`: this is not HTTP. */
type Reading = { answer: Answer; nextAt: number } | 'more' | 'torn'

/** How a connection ended: after whole answers, in the middle of one, or with bytes that nobody could read. */
export type Ending = 'whole' | 'cut' | 'torn'

const headEnd = Buffer.from('\r\n\r\n')

/**
 * Takes answers out of the bytes of a connection, in the order in which they were asked for.
 *
 * @param isHead whether the next answer has a head only, as those to HEAD have
 */
export function createAnswerReader(isHead: () => boolean, onAnswer: (answer: Answer) => void) {
  let pending: Buffer = Buffer.alloc(0)
  let isTorn = false

  function read() {
    while (pending.length > 0 && !isTorn) {
      const reading = readAnswer(pending, isHead())
      if (reading === 'more') return
      if (reading === 'torn') {
        isTorn = true
        return
      }
      pending = pending.subarray(reading.nextAt)
      if (reading.answer.status >= 200) onAnswer(reading.answer)
    }
  }

  return {
    push(chunk: Buffer) {
      pending = pending.length === 0 ? chunk : Buffer.concat([pending, chunk])
      read()
    },
    ending(): Ending {
      if (isTorn) return 'torn'
      return pending.length === 0 ? 'whole' : 'cut'
    },
    /** What belongs to no answer. */
    rest: () => pending.toString('latin1', 0, 500),
  }
}

function readAnswer(bytes: Buffer, isHead: boolean): Reading {
  const bodyAt = bytes.indexOf(headEnd) + headEnd.length
  if (bodyAt < headEnd.length) return looksRight(bytes) ? 'more' : 'torn'
  const head = bytes.toString('latin1', 0, bodyAt)
  const status = Number(/^HTTP\/1\.1 (\d{3}) /.exec(head)?.[1])
  if (!status) return 'torn'
  const toReading = (body: string, nextAt: number) => ({ answer: { status, head, body }, nextAt })
  if (isHead || status < 200 || status === 204) return toReading('', bodyAt)
  if (/\r\ntransfer-encoding: *chunked\r\n/i.test(head)) {
    const read = readChunks(bytes, bodyAt)
    return typeof read === 'string' ? read : toReading(read.body, read.nextAt)
  }
  const length = Number(/\r\ncontent-length: *(\d+)\r\n/i.exec(head)?.[1] ?? 0)
  const nextAt = bodyAt + length
  return bytes.length < nextAt ? 'more' : toReading(bytes.toString('utf8', bodyAt, nextAt), nextAt)
}

function looksRight(bytes: Buffer): boolean {
  return 'HTTP/1.1 '.startsWith(bytes.toString('latin1', 0, Math.min(9, bytes.length)))
}

function readChunks(bytes: Buffer, from: number): { body: string; nextAt: number } | 'more' | 'torn' {
  const chunks: Buffer[] = []
  for (let at = from; ; ) {
    const lineEnd = bytes.indexOf('\r\n', at)
    if (lineEnd < 0) return 'more'
    const size = bytes.toString('latin1', at, lineEnd)
    if (!/^[\da-f]+$/i.test(size)) return 'torn'
    const dataAt = lineEnd + 2
    const dataEnd = dataAt + Number.parseInt(size, 16)
    if (bytes.length < dataEnd + 2) return 'more'
    if (size === '0') return { body: Buffer.concat(chunks).toString(), nextAt: dataEnd + 2 }
    chunks.push(bytes.subarray(dataAt, dataEnd))
    at = dataEnd + 2
  }
}
