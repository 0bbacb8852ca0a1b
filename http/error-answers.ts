import type { ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { FastifyError, FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Logger } from 'pino'
import { bodyBytesMaxDefault, tooLarge } from './body/body.ts'
import type { UploadPace } from './body/upload-pace.ts'
import { HttpError, toErrorEnvelope, toHttpError } from './errors.ts'
import { toErrorForClient } from './logging-clients.ts'
import { toErrorAnswer } from './mlflow-clients.ts'
import type { Pages } from './pages.ts'

/** Sends every HTTP error in our envelope, whichever part of the server raised it. */

/**
 * Replaces two answers that Node would send with an empty body: a request without `Host`, which HTTP/1.1 requires, gets our
 * envelope; an unknown `Expect` is ignored.
 */
export function answerOddHeads(app: FastifyInstance) {
  app.server.on('checkExpectation', (request, reply) => app.server.emit('request', request, reply))
  app.addHook('onRequest', (request, _reply, done) => {
    const isNameless = request.headers.host === undefined && request.raw.httpVersion === '1.1'
    done(isNameless ? new HttpError('badRequest', 'The header Host is missing: HTTP/1.1 asks for it.') : undefined)
  })
}

/**
 * Answers an unknown path or method before the body is read, so that it costs no memory: with the page of the web
 * interface, if it is there and a browser asks; else with an error.
 */
export function answerUnknownRoutes(app: FastifyInstance, findPages: () => Pages | undefined) {
  const methods = new Map<string, Set<string>>()
  app.addHook('onRoute', (it) => {
    const known = methods.get(it.url) ?? new Set()
    for (const method of [it.method].flat()) known.add(method)
    methods.set(it.url, known)
  })
  function rejectUnknown(request: FastifyRequest): never {
    const path = request.url.split('?')[0]?.replace(/(?<=.)\/$/, '') ?? ''
    const known = methods.get(path) ?? methods.get(findPattern(path, methods.keys()) ?? '')
    if (!known) throw new HttpError('routeUnknown', `There is no ${shorten(path)}: see /reference for what there is.`)
    const allow = [...known].join(', ')
    throw new HttpError('wrongMethod', `${shorten(path)} does not take ${request.method}: use ${allow}.`, {
      headers: { allow },
    })
  }
  app.addHook('onRequest', (request, _reply, done) => {
    if (request.is404 && !findPages()?.wants(request)) rejectUnknown(request)
    done()
  })
  app.setNotFoundHandler((request, reply) => {
    const pages = findPages()
    return pages?.wants(request) ? pages.send(reply) : rejectUnknown(request)
  })
}

/** Limits how much of the request is echoed. */
const shorten = (text: string) => text.slice(0, 200)

/** Finds the route that a path matches: a part of the route that begins with a colon matches anything. */
function findPattern(path: string, routes: Iterable<string>): string | undefined {
  const parts = path.split('/')
  for (const route of routes) {
    const expected = route.split('/')
    if (expected.length !== parts.length) continue
    if (expected.every((it, at) => it === parts[at] || (it.startsWith(':') && parts[at] !== ''))) return route
  }
  return undefined
}

/** Answers a request with an HTTP error; our own errors go to the log with their cause. */
export function sendError(error: FastifyError, request: FastifyRequest, reply: FastifyReply) {
  // The caller has disconnected, which ended the stream of the answer, or the query for it.
  const hasEndedIt = error.code === 'ERR_STREAM_PREMATURE_CLOSE' || error.name === 'AbortError'
  if (hasEndedIt && reply.raw.destroyed) return
  const found = fromFramework(error, request) ?? toHttpError(error)
  logError(request.log, found, error, request.routeOptions.url)
  const httpError = toErrorForClient(found, request.headers, request.url)
  // As bytes: no hook runs for errors of the router, so nothing would remove the charset that Fastify adds to text.
  const answer = toErrorAnswer(httpError, request.url)
  const body = Buffer.from(JSON.stringify(answer.body))
  const send = () =>
    reply.code(answer.status).headers(httpError.headers).header('content-type', 'application/json').send(body)
  if (httpError.holdMs === 0) return void send()
  // Or else the body would stay in memory until the answer is sent.
  request.body = undefined
  setTimeout(send, httpError.holdMs)
}

/** Logs the errors that the caller did not cause. */
export function logError(
  log: Pick<Logger, 'warn' | 'error'>,
  httpError: HttpError,
  error: unknown,
  url: string | undefined,
) {
  if (httpError.kind === 'bug') log.error({ err: error, url }, 'a request failed')
  else if (httpError.kind === 'unavailable') log.warn({ err: httpError.cause, url }, httpError.message)
}

export const unknownType = () =>
  new HttpError('unsupportedType', 'The Content-Type is not understood: send application/json.')

/** Maps Fastify's own errors by their code. */
function fromFramework(error: FastifyError, request: FastifyRequest): HttpError | undefined {
  switch (error.code) {
    case 'FST_ERR_CTP_BODY_TOO_LARGE':
      return tooLarge(request.routeOptions.bodyLimit ?? bodyBytesMaxDefault)
    case 'FST_ERR_CTP_INVALID_MEDIA_TYPE':
      return unknownType()
    case 'FST_ERR_CTP_INVALID_CONTENT_LENGTH':
      return new HttpError('badRequest', 'The length of the body differs from Content-Length.')
    case 'FST_ERR_BAD_URL':
      return new HttpError('badRequest', 'The address is not a valid URL path.')
  }
  if (error.statusCode !== undefined && error.statusCode >= 400 && error.statusCode < 500) {
    return new HttpError('badRequest', shorten(error.message))
  }
  return undefined
}

/** Answers requests that are not valid HTTP or arrive too slowly. Uploads may be slow: `upload-pace.ts` checks their pace. */
export function createBrokenRequestHandler({ isUploading }: Pick<UploadPace, 'isUploading'>) {
  return (error: NodeJS.ErrnoException, socket: Socket) => {
    if (error.code === 'ERR_HTTP_REQUEST_TIMEOUT' && isUploading(socket)) return
    answerBrokenRequest(error, socket)
  }
}

const parserErrors: Record<string, string> = {
  ERR_HTTP_REQUEST_TIMEOUT:
    'The request took too long to arrive: it was given 20 s for its headers, 60 s for all of it.',
  HPE_HEADER_OVERFLOW: 'The headers are over the limit of 64 KiB.',
}

/** Writes to the socket: when Node's parser fails there is no request to reply to. */
function answerBrokenRequest(error: NodeJS.ErrnoException, socket: Socket & { _httpMessage?: ServerResponse | null }) {
  if (error.code === 'ECONNRESET' || !socket.writable) return
  const answer = socket._httpMessage
  // An earlier request still gets its own answer, then the connection ends: the caller would take ours for that one.
  if (answer?.req.complete && !answer.headersSent) return void answer.once('finish', () => socket.end())
  // Part of an answer is sent: nothing else can follow.
  if (answer?.headersSent) return void socket.destroy()
  const message = parserErrors[error.code ?? ''] ?? `The request is not valid HTTP (${error.code ?? 'unreadable'}).`
  const body = JSON.stringify(toErrorEnvelope(new HttpError('badRequest', message)))
  socket.end(
    `HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\ncontent-length: ${Buffer.byteLength(body)}\r\n` +
      `connection: close\r\n\r\n${body}`,
  )
}
