import type { IncomingHttpHeaders, Server } from 'node:http'
import type { Socket } from 'node:net'
import { createLruCache } from '../../runtime/lru-cache.ts'
import { sessionCookieName } from '../session-cookie.ts'

/**
 * The fast path for the frequent writes. It reads plain requests from the socket and answers them, without the objects,
 * streams and hooks of Node's server, which take at least half of the time of a small request.
 *
 * A plain request is HTTP/1.1, has well-formed headers without duplicates, and an uncompressed body, of JSON or of another type
 * that its route takes, with a Content-Length. Every other request goes to Node's server with all its bytes, and its connection
 * stays there. So does a request that is not complete within `restWaitMs`. The fast path never rejects a request or guesses what it means.
 *
 * A larger body is admitted by its headers before it is read: only valid keys, and only so many bodies, may take memory. A
 * connection handles one request at a time; while it does, the socket is paused.
 */
type Settings = {
  server: Server
  /** The routes by method and path: `POST /path`. */
  routes: ReadonlyMap<string, FastRoute>
  /** Bodies up to this size need no admission. */
  smallBodyBytes: number
  /** How long the rest of a request, or the first request of a connection, may take to arrive. */
  restWaitMs: number
  /** How long a connection may be idle between requests. */
  idleMsMax: number
  /** True when connections must close after their answer. */
  isDraining(): boolean
}

/** Neither function throws or rejects. */
export type FastRoute = {
  /** A request with a longer body goes to Node's server. */
  bodyBytesMax: number
  /** A content type besides that of JSON. */
  takes: string | undefined
  /** Admits a larger body before it is read. A request that is not admitted goes to Node's server, which answers the error. */
  admit(headers: IncomingHttpHeaders, bodyBytes: number): Admission | Promise<Admission>
  answer(headers: IncomingHttpHeaders, body: Buffer): FastAnswer | Promise<FastAnswer>
}

/** Releases the memory of the body; undefined when the body is not admitted. */
type Admission = (() => void) | undefined

/** The status line and headers, each with its line end, and the body. */
export type FastAnswer = { head: string; body: string }

export type FastPath = {
  /** Closes idle connections at once and the others after their answer, as Node's server does when it closes. */
  drain(): void
  /** True while a request of this connection is handled. */
  isBusy(socket: Socket): boolean
}

type Head = { route: FastRoute; headers: IncomingHttpHeaders; bodyBytes: number }

/** A request whose head has arrived, with the offsets of its body and of the next request. */
type Incoming = { head: Head; bodyAt: number; next: number }

export function openFastPath({
  server,
  routes,
  smallBodyBytes,
  restWaitMs,
  idleMsMax,
  isDraining,
}: Settings): FastPath {
  const nodeListeners = server.listeners('connection') as ((socket: Socket) => void)[]
  server.removeAllListeners('connection')
  const keepAlive = `connection: keep-alive\r\nkeep-alive: timeout=${Math.floor(idleMsMax / 1_000)}\r\n\r\n`
  const readRequest = createRequestReader(routes, smallBodyBytes)
  const busy = new Set<Socket>()
  /** Connections without a request in progress. */
  const idle = new Set<Socket>()
  let isClosing = false

  server.on('connection', (socket: Socket) => {
    /** The unread bytes are `rest` and then `chunks`. */
    let rest: Buffer | undefined
    let chunks: Buffer[] = []
    let chunksBytes = 0
    let incoming: Incoming | undefined
    let releaseBody: Admission
    /** When the wait for the rest of a request began. */
    let waitingSinceMs: number | undefined
    let hadRequest = false
    /** The socket's timeout: `restWaitMs` or `idleMsMax`. */
    let isShortTimeout = true
    let hasEnded = false
    socket.setTimeout(restWaitMs)
    idle.add(socket)

    function onData(chunk: Buffer) {
      if (rest === undefined) {
        rest = chunk
      } else {
        chunks.push(chunk)
        chunksBytes += chunk.length
      }
      if (busy.has(socket)) socket.pause()
      else readOn()
    }

    /** Concatenates the chunks: once for a request, however many there are. */
    function concatenate(): Buffer | undefined {
      if (rest === undefined || chunksBytes === 0) return rest
      rest = Buffer.concat([rest, ...chunks], rest.length + chunksBytes)
      chunks = []
      chunksBytes = 0
      return rest
    }

    function readOn() {
      if (incoming) return takeBody(incoming)
      const bytes = concatenate()
      if (bytes === undefined) return void idle.add(socket)
      idle.delete(socket)
      const found = isClosing ? 'not plain' : readRequest(bytes)
      if (found === 'not plain') return handOver()
      if (found === 'incomplete') return waitForRest()
      incoming = found
      const { route, headers, bodyBytes } = found.head
      if (bodyBytes <= smallBodyBytes) return takeBody(found)
      const admission = route.admit(headers, bodyBytes)
      if (!(admission instanceof Promise)) return onAdmission(admission)
      busy.add(socket)
      void admission.then((it) => {
        busy.delete(socket)
        if (socket.isPaused()) socket.resume()
        onAdmission(it)
      })
    }

    function onAdmission(admission: Admission) {
      releaseBody = admission
      if (socket.destroyed) return onClose()
      if (admission === undefined) handOver()
      else if (incoming) takeBody(incoming)
    }

    function takeBody({ head, bodyAt, next }: Incoming) {
      if (isClosing) return handOver()
      if ((rest?.length ?? 0) + chunksBytes < next) return waitForRest()
      const bytes = concatenate() as Buffer
      incoming = undefined
      waitingSinceMs = undefined
      rest = next === bytes.length ? undefined : bytes.subarray(next)
      hadRequest = true
      setShortTimeout(false)
      busy.add(socket)
      const answer = head.route.answer(head.headers, bytes.subarray(bodyAt, next))
      if (answer instanceof Promise) void answer.then(send)
      else send(answer)
    }

    /** The socket's timeout ends silence; the time since the first byte ends a request that trickles in. */
    function waitForRest() {
      const nowMs = performance.now()
      waitingSinceMs ??= nowMs
      if (nowMs - waitingSinceMs > restWaitMs) handOver()
      else setShortTimeout(true)
    }

    /** Sets the socket's timeout only when it changes, because that has a cost. */
    function setShortTimeout(isShort: boolean) {
      if (isShort === isShortTimeout) return
      isShortTimeout = isShort
      socket.setTimeout(isShort ? restWaitMs : idleMsMax)
    }

    function send({ head, body }: FastAnswer) {
      release()
      if (socket.destroyed) return
      const isLast = hasEnded || isClosing || isDraining()
      const hasRoom = socket.write(head + (isLast ? close : keepAlive) + body)
      if (isLast) return void socket.end()
      if (hasRoom) onSent()
      else socket.once('drain', onSent)
    }

    function onSent() {
      busy.delete(socket)
      if (socket.isPaused()) socket.resume()
      readOn()
    }

    function onEnd() {
      hasEnded = true
      if (!busy.has(socket)) socket.end()
    }

    function onTimeout() {
      // The caller does not read its answer; or else we are still working on it.
      if (busy.has(socket)) return void (socket.writableLength > 0 && socket.destroy())
      if (hadRequest && rest === undefined) return void socket.destroy()
      // Bytes that arrived while this process was busy are read first.
      const before = socket.bytesRead
      setImmediate(() => {
        if (socket.bytesRead === before && !socket.destroyed) handOver()
      })
    }

    function onClose() {
      // The body of a request that is being answered is released after its answer.
      if (incoming) release()
      busy.delete(socket)
      idle.delete(socket)
    }

    function release() {
      releaseBody?.()
      releaseBody = undefined
    }

    const listeners = { data: onData, end: onEnd, timeout: onTimeout, close: onClose, error: ignore }
    for (const [event, listener] of Object.entries(listeners)) socket.on(event, listener)

    function handOver() {
      idle.delete(socket)
      socket.pause()
      for (const [event, listener] of Object.entries(listeners)) socket.off(event, listener)
      socket.setTimeout(0)
      release()
      if (hasEnded) return void socket.end()
      const bytes = concatenate()
      if (bytes) socket.unshift(bytes)
      for (const listener of nodeListeners) listener.call(server, socket)
      socket.resume()
    }
  })

  return {
    drain() {
      isClosing = true
      for (const socket of idle) socket.destroy()
    },
    isBusy: (socket) => busy.has(socket),
  }
}

/** A broken connection closes by itself. */
function ignore() {}

/** Reads requests. Parsed heads are cached: callers repeat them, except for the length of the body. */
function createRequestReader(routes: ReadonlyMap<string, FastRoute>, smallBodyBytes: number) {
  const heads = createLruCache<Head>(headsMax)

  function findHead(text: string): Head | undefined {
    const known = heads.get(text)
    if (known) return known
    const head = readHead(text, routes)
    if (!head || head.bodyBytes > head.route.bodyBytesMax) return undefined
    // Not cached: a head with an idempotency key, or with the length of a larger body, rarely comes again.
    if (head.headers['idempotency-key'] === undefined && head.bodyBytes <= smallBodyBytes) heads.set(text, head)
    return head
  }

  return function readRequest(bytes: Buffer): Incoming | 'not plain' | 'incomplete' {
    const headEnd = bytes.indexOf(headEndMark)
    if (headEnd > headBytesMax) return 'not plain'
    if (headEnd < 0) return mayBecomePlain(bytes) ? 'incomplete' : 'not plain'
    const head = findHead(bytes.toString('latin1', 0, headEnd))
    if (!head) return 'not plain'
    const bodyAt = headEnd + headEndMark.length
    return { head, bodyAt, next: bodyAt + head.bodyBytes }
  }
}

const close = 'connection: close\r\n\r\n'
const methodMark = 'POST /'
const headEndMark = '\r\n\r\n'
const headBytesMax = 4 * 1024
const headsMax = 1_000
const requestLineEnd = ' HTTP/1.1\r\n'
const headerName = /^[A-Za-z][A-Za-z0-9-]*$/
const headerValue = /^[\x20-\x7e]*$/

/** True for an incomplete head that begins like a write. */
function mayBecomePlain(bytes: Buffer): boolean {
  return (
    bytes.length < headBytesMax &&
    methodMark.startsWith(bytes.toString('latin1', 0, Math.min(bytes.length, methodMark.length)))
  )
}

/** Headers that change how the request is read, or how long it may wait, or what happens to its connection. */
const specialHeaders = new Set([
  'connection',
  'content-encoding',
  'cookie',
  'expect',
  'http2-settings',
  'keep-alive',
  'prefer',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
])

/** Parses the head of a plain request to one of the routes; undefined for any other request. */
function readHead(text: string, routes: ReadonlyMap<string, FastRoute>): Head | undefined {
  const lineEnd = text.indexOf(requestLineEnd)
  const route = lineEnd < 0 ? undefined : routes.get(text.slice(0, lineEnd))
  if (!route) return undefined
  const headers: IncomingHttpHeaders = {}
  for (const line of text.slice(lineEnd + requestLineEnd.length).split('\r\n')) {
    const colon = line.indexOf(':')
    const rawName = line.slice(0, Math.max(0, colon))
    // Before it is trimmed, which would also remove a lone line feed: what follows that is a header of its own for some proxies.
    if (!headerName.test(rawName) || !headerValue.test(line.slice(colon + 1))) return undefined
    const value = line.slice(colon + 1).trim()
    const name = rawName.toLowerCase()
    if (headers[name] !== undefined || (specialHeaders.has(name) && !isHarmless(name, value))) return undefined
    headers[name] = value
  }
  const length = headers['content-length']
  if (headers.host === undefined || length === undefined || !/^\d{1,9}$/.test(length)) return undefined
  if (!isJson(headers['content-type']) && headers['content-type'] !== route.takes) return undefined
  const bodyBytes = Number(length)
  return bodyBytes === 0 ? undefined : { route, headers, bodyBytes }
}

const isHarmless = (name: string, value: string) =>
  (name === 'connection' && value.toLowerCase() === 'keep-alive') ||
  (name === 'content-encoding' && value === 'identity') ||
  // The session of a browser counts on Node's server only, which checks who makes it call.
  (name === 'cookie' && !value.includes(sessionCookieName)) ||
  name === 'keep-alive'

const isJson = (type: string | undefined) =>
  type === undefined || /^application\/json(?:; ?charset=utf-8)?$/i.test(type)
