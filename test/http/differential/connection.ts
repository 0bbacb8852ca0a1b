import { once } from 'node:events'
import { connect } from 'node:net'
import type { Script } from './requests.ts'

/** One answer: the status line, the headers in order of their names, and the body. */
export type RawAnswer = { status: string; headers: string[]; body: string }

/** What came on one connection, and whether it was still open afterwards. */
export type Outcome = { answers: RawAnswer[]; isOpen: boolean }

const probe = Buffer.from('GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n')

/**
 * Sends a script and reads an answer for each of its requests, or as many as come before the server closes. Then one more
 * request shows whether the connection is still open.
 */
export async function play(port: number, { requests, cuts }: Script): Promise<Outcome> {
  const socket = connect(port, '127.0.0.1')
  socket.setNoDelay(true)
  socket.on('error', () => undefined)
  let received = Buffer.alloc(0)
  let hasClosed = false
  let wake = () => {}
  socket.on('data', (chunk) => {
    received = Buffer.concat([received, chunk])
    wake()
  })
  const closed = new Promise<void>((resolve) => {
    socket.once('close', () => {
      hasClosed = true
      wake()
      resolve()
    })
  })
  await once(socket, 'connect')

  /** Resolves with the next answer, or with nothing once the connection is closed. */
  async function next(method: string): Promise<RawAnswer | undefined> {
    for (;;) {
      const found = takeAnswer(received, method)
      if (found) {
        received = received.subarray(found.length)
        if (found.answer) return found.answer
      } else if (hasClosed) return undefined
      else {
        await new Promise<void>((resolve) => {
          wake = resolve
        })
      }
    }
  }

  const all = Buffer.concat(requests.map((it) => it.bytes))
  const ends = [...cuts, all.length]
  for (const [at, end] of ends.entries()) {
    if (hasClosed) break
    await new Promise((resolve) => socket.write(all.subarray(ends[at - 1] ?? 0, end), resolve))
    // What is written together may arrive together: the other side reads before it goes on.
    await new Promise((resolve) => setImmediate(resolve))
  }
  const answers: RawAnswer[] = []
  for (const { method } of requests) {
    const answer = await next(method)
    if (!answer) break
    answers.push(answer)
    // Node's server reads no further request on a connection that it is about to close.
    if (answer.headers.includes('connection: close')) break
  }
  if (!hasClosed && answers.at(-1)?.headers.includes('connection: close') === false) socket.write(probe)
  const isOpen = (await next('GET'))?.status === 'HTTP/1.1 200 OK'
  socket.destroy()
  await closed
  return { answers, isOpen }
}

/** The first answer of what was received, and its length in bytes; without an answer for one that only says "go on". */
function takeAnswer(bytes: Buffer, method: string): { length: number; answer?: RawAnswer } | undefined {
  const headEnd = bytes.indexOf('\r\n\r\n')
  if (headEnd < 0) return undefined
  const [status = '', ...lines] = bytes.toString('latin1', 0, headEnd).split('\r\n')
  const bodyAt = headEnd + 4
  if (/^HTTP\/1\.1 1\d\d /.test(status)) return { length: bodyAt }
  const headers = lines.map(toHeader)
  const bodyLength = method === 'HEAD' || / (204|304) /.test(status) ? 0 : toBodyLength(headers, bytes, bodyAt)
  if (bodyLength === undefined || bytes.length < bodyAt + bodyLength) return undefined
  const body = bytes.toString('utf8', bodyAt, bodyAt + bodyLength)
  return {
    length: bodyAt + bodyLength,
    answer: { status, headers: headers.map(withoutTime).toSorted(), body: withoutWait(body) },
  }
}

function toBodyLength(headers: string[], bytes: Buffer, bodyAt: number): number | undefined {
  const length = headers.find((it) => it.startsWith('content-length: '))?.slice('content-length: '.length)
  if (length !== undefined) return Number(length)
  if (!headers.includes('transfer-encoding: chunked')) return 0
  const end = bytes.indexOf('0\r\n\r\n', bodyAt)
  return end < 0 ? undefined : end + 5 - bodyAt
}

function toHeader(line: string): string {
  const colon = line.indexOf(':')
  return `${line.slice(0, colon).toLowerCase()}: ${line.slice(colon + 1).trim()}`
}

/** What differs from second to second keeps its name only. */
const withoutTime = (header: string) => header.replace(/^(date|retry-after|ratelimit[\w-]*): .*/, '$1')
const withoutWait = (body: string) => body.replace(/again in \d+ s/, '')
