import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { dialects } from './dialects.ts'
import type { LoadReport } from './load-report.ts'
import { createPace, type Pace } from './pace.ts'
import { createRequestPool, type RequestPool, type RequestSettings } from './requests.ts'

/**
 * The load generator: raw sockets that send prepared requests and look only for the end of each answer. Node's HTTP client
 * needs as much CPU as the server, which on a small machine would halve the measured rate.
 *
 * Each connection has one request at a time, like a client, and sends the next after the answer.
 */
export type HttpLoadSettings = RequestSettings & {
  url: string
  connections: number
  /** The experiments to write to: those of the data set, once per pass. */
  experimentKeys: string[]
}

type Recorder = {
  answered(experiment: number, status: number, body: string, tookMs: number): void
  failed(error: Error): void
}

export function createHttpLoad(settings: HttpLoadSettings) {
  const { url, connections, experimentKeys, data } = settings
  const pool = createRequestPool(settings)
  const requestsMax = pool.count * Math.floor(experimentKeys.length / data.experiments)
  const { isAccepted } = dialects[settings.dialect]
  let next = 0

  return {
    /**
     * Keeps all connections busy, then waits for the last answers. With `pointsPerSecond` it sends each request when it is
     * due, as far as connections are free.
     */
    async run(seconds: number, pointsPerSecond?: number): Promise<LoadReport> {
      const { recorder, report } = createRecorder(pool, isAccepted)
      const pace = pointsPerSecond === undefined ? undefined : createPace(pointsPerSecond / pool.pointsPerRequest)
      const askedAt = performance.now()
      const sockets = await Promise.all(Array.from({ length: connections }, () => openSocket(url)))
      const startedAt = performance.now()
      const deadline = startedAt + seconds * 1_000
      const takeRequest = () => {
        if (next >= requestsMax || performance.now() >= deadline) return undefined
        const index = next % pool.count
        const pass = Math.floor(next / pool.count)
        next++
        const experiment = pass * data.experiments + pool.experimentOf(index)
        return { experiment, bytes: pool.take(index, experimentKeys[experiment] as string) }
      }
      const ending = setTimeout(() => pace?.end(), seconds * 1_000)
      await Promise.all(sockets.map((socket) => keepBusy(socket, takeRequest, recorder, pace)))
      clearTimeout(ending)
      pace?.end()
      for (const socket of sockets) socket.destroy()
      return { ...report(startedAt, next >= requestsMax), preparingSeconds: (startedAt - askedAt) / 1_000 }
    },
  }
}

async function openSocket(url: string): Promise<Socket> {
  const { hostname, port } = new URL(url)
  const socket = connect({ host: hostname, port: Number(port), noDelay: true })
  await once(socket, 'connect')
  return socket
}

type Taken = { experiment: number; bytes: Buffer }

/** Resolves after the last answer, or when the connection is lost. */
function keepBusy(
  socket: Socket,
  takeRequest: () => Taken | undefined,
  recorder: Recorder,
  pace: Pace | undefined,
): Promise<void> {
  return new Promise((resolve) => {
    let underWay: Taken | undefined
    let sentAt = 0
    let received = ''

    function send() {
      underWay = takeRequest()
      if (!underWay) return resolve()
      sentAt = performance.now()
      socket.write(underWay.bytes)
    }

    socket.on('data', (chunk) => {
      received = received === '' ? chunk.toString('latin1') : received + chunk.toString('latin1')
      const answer = readAnswer(received)
      if (!answer) return
      received = ''
      recorder.answered((underWay as Taken).experiment, answer.status, answer.body, performance.now() - sentAt)
      underWay = undefined
      sendNext()
    })
    const lose = (error: Error) => {
      if (underWay) recorder.failed(error)
      resolve()
    }
    socket.on('error', lose)
    socket.on('close', () => lose(new Error('the connection was closed')))
    const sendNext = pace ? () => pace.whenDue(send) : send
    sendNext()
  })
}

function readAnswer(text: string): { status: number; body: string } | undefined {
  const headEnd = text.indexOf('\r\n\r\n')
  if (headEnd < 0) return undefined
  const status = Number(text.slice(9, 12))
  if (status === 204) return { status, body: '' }
  const bodyAt = headEnd + 4
  const lengthAt = findHeader(text, headEnd, 'ontent-length: ', 'ontent-Length: ')
  if (lengthAt >= 0) {
    const length = Number.parseInt(text.slice(lengthAt + 15, lengthAt + 25), 10)
    return text.length < bodyAt + length ? undefined : { status, body: text.slice(bodyAt) }
  }
  if (findHeader(text, headEnd, 'ransfer-encoding: chunked', 'ransfer-Encoding: chunked') < 0) {
    throw new Error(`An answer without a length:\n${text.slice(0, headEnd)}`)
  }
  return text.endsWith('\r\n0\r\n\r\n') ? { status, body: text.slice(bodyAt) } : undefined
}

function findHeader(text: string, headEnd: number, ...spellings: string[]): number {
  return spellings.map((it) => text.indexOf(it)).find((at) => at >= 0 && at < headEnd) ?? -1
}

type IsAccepted = (status: number, body: string, points: number) => boolean

function createRecorder(pool: RequestPool, isAccepted: IsAccepted) {
  const tookMs: number[] = []
  const acknowledged: number[] = []
  const errors: Record<string, number> = {}
  let unclearPoints = 0

  function noteError(what: string) {
    errors[what] = (errors[what] ?? 0) + 1
    // An unacknowledged point may be stored: the answer may have been lost.
    unclearPoints += pool.pointsPerRequest
  }

  const recorder: Recorder = {
    answered(experiment, status, body, ms) {
      tookMs.push(ms)
      if (!isAccepted(status, body, pool.pointsPerRequest)) return noteError(`HTTP ${status}: ${body.slice(0, 200)}`)
      acknowledged[experiment] = (acknowledged[experiment] ?? 0) + pool.pointsPerRequest
    },
    failed: (error) => noteError(error.message),
  }

  function report(startedAt: number, isUsedUp: boolean): Omit<LoadReport, 'preparingSeconds'> {
    tookMs.sort((a, b) => a - b)
    const share = (part: number) => tookMs[Math.min(tookMs.length - 1, Math.floor(tookMs.length * part))] ?? Number.NaN
    return {
      seconds: (performance.now() - startedAt) / 1_000,
      requests: tookMs.length,
      acknowledged: Array.from(acknowledged, (points) => points ?? 0),
      unclearPoints,
      errors,
      p50Ms: share(0.5),
      p99Ms: share(0.99),
      isUsedUp,
    }
  }
  return { recorder, report }
}
