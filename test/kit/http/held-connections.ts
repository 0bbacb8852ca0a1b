import type { Socket } from 'node:net'
import { type Answer, createAnswerReader } from './answers.ts'
import { openSocket } from './socket.ts'

/**
 * Slow clients: some send a byte a second, some nothing, some never read the answer. The server may keep each connection
 * for a while (60 s at most, checked every 30 s) and must then close it.
 */
type Settings = {
  url: string
  apiKey: string
  experimentKey: string
  longRead: string
  count: number
  /** Says what is wrong with an answer; undefined when it is right. */
  findError(answer: Answer): string | undefined
}

export type HeldReport = { held: number; endedByServer: number; longestMs: number; errors: string[] }

type Manner = { name: string; opening: string; drip?: string }

const dripMs = 1_000
const heldMsMax = 120_000
/** After this long, a client that does not read starts reading: it must get an answer, or the beginning of one. */
const readAfterMs = 45_000
/** Few: each occupies one of the server's 32 ClickHouse connections until the server closes it. */
const unreadOneIn = 20
const errorsKept = 5

export function holdConnections({ url, apiKey, experimentKey, longRead, count, findError }: Settings) {
  const key = `host: x\r\nauthorization: ${apiKey}\r\n`
  const metric = `POST /api/rest/v2/write/experiment/metric HTTP/1.1\r\n${key}`
  const body = `{"experimentKey":"${experimentKey}","metricName":"`
  const manners: Manner[] = [
    { name: 'nothing sent', opening: '' },
    { name: 'a slow request line', opening: 'GET /', drip: 'x' },
    { name: 'slow headers', opening: metric, drip: 'a: b\r\n' },
    { name: 'a slow body', opening: `${metric}content-length: 60000\r\n\r\n${body}`, drip: 'x' },
    { name: 'a slow body in chunks', opening: `${metric}transfer-encoding: chunked\r\n\r\n`, drip: '1\r\n{\r\n' },
    { name: 'nothing after an answer', opening: `GET /livez HTTP/1.1\r\n${key}\r\n` },
  ]
  const unread = {
    name: 'an answer that is not read',
    opening: `GET ${longRead} HTTP/1.1\r\n${key}connection: close\r\n\r\n`,
  }
  const report: HeldReport = { held: 0, endedByServer: 0, longestMs: 0, errors: [] }
  const sockets = new Set<Socket>()
  let isStopping = false

  function noteError(what: string) {
    if (report.errors.length < errorsKept) report.errors.push(what)
  }

  function hold({ name, opening, drip }: Manner): Promise<void> {
    return new Promise((resolve) => {
      const openedAt = performance.now()
      const socket = openSocket(url)
      sockets.add(socket)
      report.held++
      const reader = createAnswerReader(
        () => false,
        (answer) => {
          const error = findError(answer)
          if (error) noteError(`${name}: ${error}: ${answer.head}${answer.body.slice(0, 300)}`)
        },
      )
      socket.on('data', (chunk) => reader.push(chunk))
      socket.write(opening)
      const timers = [
        drip && setInterval(() => socket.write(drip), dripMs),
        setTimeout(() => {
          noteError(`${name}: the connection is still there after ${heldMsMax / 1000} s`)
          socket.destroy()
        }, heldMsMax),
      ]
      if (name === unread.name) {
        socket.pause()
        timers.push(setTimeout(() => socket.resume(), readAfterMs))
      }
      socket.once('close', () => {
        for (const timer of timers) if (timer) clearTimeout(timer)
        sockets.delete(socket)
        if (!isStopping) {
          report.endedByServer++
          report.longestMs = Math.max(report.longestMs, performance.now() - openedAt)
          if (reader.ending() === 'torn') noteError(`${name}: bytes that are no answer: ${reader.rest()}`)
        }
        resolve()
      })
    })
  }

  const holders = Array.from({ length: count }, async (_, at) => {
    const manner = at % unreadOneIn === 0 ? unread : (manners[at % manners.length] as Manner)
    while (!isStopping) await hold(manner)
  })

  return {
    /** How many are open now. */
    count: () => sockets.size,
    async finish(): Promise<HeldReport> {
      isStopping = true
      for (const socket of sockets) socket.destroy()
      await Promise.all(holders)
      return report
    },
  }
}
