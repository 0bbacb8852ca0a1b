import type { IncomingHttpHeaders, Server } from 'node:http'
import type { Socket } from 'node:net'
import { createLruCache } from '../../runtime/lru-cache.ts'

/**
 * The short way for writes of the stream, which are most of what comes. A request to one of its routes that is plain in every
 * way is read from the socket and answered here: without the objects, streams and hooks that a request costs otherwise,
 * which are half of the time of a small one and more.
 *
 * Plain means: HTTP/1.1, every header well formed and given once, a body of JSON that is not compressed and whose length is
 * told. Whatever is not plain goes to Node's own server with all its bytes, and its connection stays there; so nothing is
 * refused here, nothing odd is interpreted, and nothing slow is waited for: a request that is not whole within `restWaitMs`
 * goes to where slow senders are dealt with.
 *
 * A larger body is let in first, by its headers, so that neither strangers nor a crowd cost memory. A connection has one
 * request under way. What comes meanwhile waits, and is not read further.
 */
type Settings = {
  server: Server
  /** What answers, by method and address: `POST /path`. */
  routes: ReadonlyMap<string, FastRoute>
  /** A body of so many bytes need not be let in. */
  smallBodyBytes: number
  /** How long the rest of a request may take to come, and a new connection to ask anything. */
  restWaitMs: number
  /** How long a connection may ask nothing further. */
  idleMsMax: number
  /** True when every connection is to end after its answer. */
  isDraining(): boolean
}

/** Neither of the two ever fails, nor does its promise. */
export type FastRoute = {
  /** A request with a longer body goes to Node's own server. */
  bodyBytesMax: number
  /** Lets a larger body in before it is read, or not: then it goes to Node's own server, which tells why. */
  letIn(headers: IncomingHttpHeaders, bodyBytes: number): LetIn | Promise<LetIn>
  answer(headers: IncomingHttpHeaders, body: Buffer): FastAnswer | Promise<FastAnswer>
}

/** What to call once the body is not held any more; undefined when it may not come in. */
type LetIn = (() => void) | undefined

/** The status line and headers, each with its line end, and the body whose length they tell. */
export type FastAnswer = { head: string; body: string }

export type FastPath = {
  /** Ends every connection after its answer, and those that ask nothing at once, as Node's own server does when it closes. */
  letGo(): void
  /** True while a request of this connection is being answered. */
  isBusy(socket: Socket): boolean
}

type Head = { route: FastRoute; headers: IncomingHttpHeaders; bodyBytes: number }

/** A request whose head is there: where its body begins, and the request after it. */
type Coming = { head: Head; bodyAt: number; next: number }

export function openFastPath({
  server,
  routes,
  smallBodyBytes,
  restWaitMs,
  idleMsMax,
  isDraining,
}: Settings): FastPath {
  const ofNode = server.listeners('connection') as ((socket: Socket) => void)[]
  server.removeAllListeners('connection')
  const keeping = `connection: keep-alive\r\nkeep-alive: timeout=${Math.floor(idleMsMax / 1_000)}\r\n\r\n`
  const readRequest = createRequestReader(routes, smallBodyBytes)
  const busy = new Set<Socket>()
  /** Those that ask nothing at this moment, and never have or have been answered. */
  const idle = new Set<Socket>()
  let lettingGo = false

  server.on('connection', (socket: Socket) => {
    /** What has come and was not used yet: all of it, but for what follows while a request is coming. */
    let rest: Buffer | undefined
    let following: Buffer[] = []
    let followingBytes = 0
    let coming: Coming | undefined
    let letGoOfBody: LetIn
    /** Since when the rest of a request is waited for. */
    let waitingSinceMs: number | undefined
    let hasAsked = false
    let isSlow = true
    let hasEnded = false
    socket.setTimeout(restWaitMs)
    idle.add(socket)

    function onData(chunk: Buffer) {
      if (rest === undefined) {
        rest = chunk
      } else {
        following.push(chunk)
        followingBytes += chunk.length
      }
      if (busy.has(socket)) socket.pause()
      else goOn()
    }

    /** Chunks are put together once, however many there are. */
    function gather(): Buffer | undefined {
      if (rest === undefined || followingBytes === 0) return rest
      rest = Buffer.concat([rest, ...following], rest.length + followingBytes)
      following = []
      followingBytes = 0
      return rest
    }

    function goOn() {
      if (coming) return takeBody(coming)
      const bytes = gather()
      if (bytes === undefined) return void idle.add(socket)
      idle.delete(socket)
      const found = lettingGo ? 'odd' : readRequest(bytes)
      if (found === 'odd') return handOver()
      if (found === 'unfinished') return waitForRest()
      coming = found
      const { route, headers, bodyBytes } = found.head
      if (bodyBytes <= smallBodyBytes) return takeBody(found)
      const letIn = route.letIn(headers, bodyBytes)
      if (!(letIn instanceof Promise)) return enter(letIn)
      busy.add(socket)
      void letIn.then((it) => {
        busy.delete(socket)
        if (socket.isPaused()) socket.resume()
        enter(it)
      })
    }

    function enter(letIn: LetIn) {
      letGoOfBody = letIn
      if (socket.destroyed) return onClose()
      if (letIn === undefined) handOver()
      else if (coming) takeBody(coming)
    }

    function takeBody({ head, bodyAt, next }: Coming) {
      if (lettingGo) return handOver()
      if ((rest?.length ?? 0) + followingBytes < next) return waitForRest()
      const bytes = gather() as Buffer
      coming = undefined
      waitingSinceMs = undefined
      rest = next === bytes.length ? undefined : bytes.subarray(next)
      hasAsked = true
      waitFor(false)
      busy.add(socket)
      const answer = head.route.answer(head.headers, bytes.subarray(bodyAt, next))
      if (answer instanceof Promise) void answer.then(send)
      else send(answer)
    }

    /** Silence ends by a time-out; who sends a byte now and then is never silent, and not whole in time either. */
    function waitForRest() {
      const nowMs = performance.now()
      waitingSinceMs ??= nowMs
      if (nowMs - waitingSinceMs > restWaitMs) handOver()
      else waitFor(true)
    }

    /** Changes how long the socket may be silent; that costs a little, so only when it is another time. */
    function waitFor(isForRest: boolean) {
      if (isForRest === isSlow) return
      isSlow = isForRest
      socket.setTimeout(isForRest ? restWaitMs : idleMsMax)
    }

    function send({ head, body }: FastAnswer) {
      holdNoBody()
      if (socket.destroyed) return
      const isLast = hasEnded || lettingGo || isDraining()
      const isTaken = socket.write(head + (isLast ? closing : keeping) + body)
      if (isLast) return void socket.end()
      if (isTaken) more()
      else socket.once('drain', more)
    }

    function more() {
      busy.delete(socket)
      if (socket.isPaused()) socket.resume()
      goOn()
    }

    function onEnd() {
      hasEnded = true
      if (!busy.has(socket)) socket.end()
    }

    function onTimeout() {
      // A caller that does not read its answer; otherwise it is our turn.
      if (busy.has(socket)) return void (socket.writableLength > 0 && socket.destroy())
      if (hasAsked && rest === undefined) return void socket.destroy()
      // What has come while this process was busy is read first.
      const before = socket.bytesRead
      setImmediate(() => {
        if (socket.bytesRead === before && !socket.destroyed) handOver()
      })
    }

    function onClose() {
      // What is being answered is held until then.
      if (coming) holdNoBody()
      busy.delete(socket)
      idle.delete(socket)
    }

    function holdNoBody() {
      letGoOfBody?.()
      letGoOfBody = undefined
    }

    const listeners = { data: onData, end: onEnd, timeout: onTimeout, close: onClose, error: ignore }
    for (const [event, listener] of Object.entries(listeners)) socket.on(event, listener)

    function handOver() {
      idle.delete(socket)
      socket.pause()
      for (const [event, listener] of Object.entries(listeners)) socket.off(event, listener)
      socket.setTimeout(0)
      holdNoBody()
      if (hasEnded) return void socket.end()
      const bytes = gather()
      if (bytes) socket.unshift(bytes)
      for (const listener of ofNode) listener.call(server, socket)
      socket.resume()
    }
  })

  return {
    letGo() {
      lettingGo = true
      for (const socket of idle) socket.destroy()
    },
    isBusy: (socket) => busy.has(socket),
  }
}

/** A connection that breaks closes by itself. */
function ignore() {}

/** Reads requests. Callers send the same heads again and again, but for the length of the body: those are remembered. */
function createRequestReader(routes: ReadonlyMap<string, FastRoute>, smallBodyBytes: number) {
  const heads = createLruCache<Head>(headsMax)

  function findHead(text: string): Head | undefined {
    const known = heads.get(text)
    if (known) return known
    const head = readHead(text, routes)
    if (!head || head.bodyBytes > head.route.bodyBytesMax) return undefined
    // A head that names its request will not come again, nor will most lengths of larger bodies.
    if (head.headers['idempotency-key'] === undefined && head.bodyBytes <= smallBodyBytes) heads.set(text, head)
    return head
  }

  return function readRequest(bytes: Buffer): Coming | 'odd' | 'unfinished' {
    const headEnd = bytes.indexOf(headEndMark)
    if (headEnd > headBytesMax) return 'odd'
    if (headEnd < 0) return mayBecomePlain(bytes) ? 'unfinished' : 'odd'
    const head = findHead(bytes.toString('latin1', 0, headEnd))
    if (!head) return 'odd'
    const bodyAt = headEnd + headEndMark.length
    return { head, bodyAt, next: bodyAt + head.bodyBytes }
  }
}

const closing = 'connection: close\r\n\r\n'
const methodMark = 'POST /'
const headEndMark = '\r\n\r\n'
const headBytesMax = 4 * 1024
const headsMax = 1_000
const requestLineEnd = ' HTTP/1.1\r\n'
const headerName = /^[A-Za-z][A-Za-z0-9-]*$/
const headerValue = /^[\x20-\x7e]*$/

/** What has no end of its head yet and begins as a write does. */
function mayBecomePlain(bytes: Buffer): boolean {
  return (
    bytes.length < headBytesMax &&
    methodMark.startsWith(bytes.toString('latin1', 0, Math.min(bytes.length, methodMark.length)))
  )
}

/** What changes how a request is to be read, or what becomes of its connection. */
const oddHeaders = new Set([
  'connection',
  'content-encoding',
  'expect',
  'http2-settings',
  'keep-alive',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
])

/** The head of a plain request to one of the routes; undefined for every other. */
function readHead(text: string, routes: ReadonlyMap<string, FastRoute>): Head | undefined {
  const lineEnd = text.indexOf(requestLineEnd)
  const route = lineEnd < 0 ? undefined : routes.get(text.slice(0, lineEnd))
  if (!route) return undefined
  const headers: IncomingHttpHeaders = {}
  for (const line of text.slice(lineEnd + requestLineEnd.length).split('\r\n')) {
    const colon = line.indexOf(':')
    const rawName = line.slice(0, Math.max(0, colon))
    const value = line.slice(colon + 1).trim()
    if (!headerName.test(rawName) || !headerValue.test(value)) return undefined
    const name = rawName.toLowerCase()
    if (headers[name] !== undefined || (oddHeaders.has(name) && !isHarmless(name, value))) return undefined
    headers[name] = value
  }
  const length = headers['content-length']
  if (headers.host === undefined || length === undefined || !/^\d{1,9}$/.test(length)) return undefined
  if (!isJson(headers['content-type'])) return undefined
  const bodyBytes = Number(length)
  return bodyBytes === 0 ? undefined : { route, headers, bodyBytes }
}

const isHarmless = (name: string, value: string) =>
  (name === 'connection' && value.toLowerCase() === 'keep-alive') ||
  (name === 'content-encoding' && value === 'identity') ||
  name === 'keep-alive'

const isJson = (type: string | undefined) =>
  type === undefined || /^application\/json(?:; ?charset=utf-8)?$/i.test(type)
