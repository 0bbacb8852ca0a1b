import { once } from 'node:events'
import { connect } from 'node:net'
import { type Answer, createAnswerReader } from '../../kit/http/answers.ts'
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
  const received: RawAnswer[] = []
  let hasClosed = false
  let wake = () => {}
  // Each answer belongs to the next request; the one after them to the probe.
  let answered = 0
  const reader = createAnswerReader(
    () => requests[answered]?.method === 'HEAD',
    (answer) => {
      answered++
      received.push(toRawAnswer(answer))
    },
  )
  socket.on('data', (chunk) => {
    reader.push(chunk)
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
  async function next(): Promise<RawAnswer | undefined> {
    while (received.length === 0 && !hasClosed) {
      await new Promise<void>((resolve) => {
        wake = resolve
      })
    }
    return received.shift()
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
  while (answers.length < requests.length) {
    const answer = await next()
    if (!answer) break
    answers.push(answer)
    // Node's server reads no further request on a connection that it is about to close.
    if (answer.headers.includes('connection: close')) break
  }
  if (!hasClosed && answers.at(-1)?.headers.includes('connection: close') === false) socket.write(probe)
  const isOpen = (await next())?.status === 'HTTP/1.1 200 OK'
  socket.destroy()
  await closed
  return { answers, isOpen }
}

function toRawAnswer({ head, body }: Answer): RawAnswer {
  const [status = '', ...lines] = head.trimEnd().split('\r\n')
  return { status, headers: lines.map((it) => withoutTime(toHeader(it))).toSorted(), body: withoutWait(body) }
}

function toHeader(line: string): string {
  const colon = line.indexOf(':')
  return `${line.slice(0, colon).toLowerCase()}: ${line.slice(colon + 1).trim()}`
}

/** What differs from second to second keeps its name only. */
const withoutTime = (header: string) => header.replace(/^(date|retry-after|ratelimit[\w-]*): .*/, '$1')
const withoutWait = (body: string) => body.replace(/again in \d+ s/, '')
