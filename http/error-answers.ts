import type { ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { FastifyError, FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Logger } from 'pino'
import { bodyBytesMaxDefault, tooLarge } from './body/body.ts'
import type { UploadPace } from './body/upload-pace.ts'
import { HttpError, toErrorEnvelope, toRefusal } from './errors.ts'

/** How every refusal leaves the server: whoever noticed it, the caller gets our envelope. */

/**
 * What Node would answer by itself, and with nothing to read: a request that names no host, which HTTP/1.1 asks of every
 * caller, is refused our way; one with an `Expect` that we do not know is taken as if it were not there.
 */
export function answerOddHeads(app: FastifyInstance) {
  app.server.on('checkExpectation', (request, reply) => app.server.emit('request', request, reply))
  app.addHook('onRequest', (request, _reply, done) => {
    const isNameless = request.headers.host === undefined && request.raw.httpVersion === '1.1'
    done(isNameless ? new HttpError('badRequest', 'The header Host is missing: HTTP/1.1 asks for it.') : undefined)
  })
}

/** Decided before the body is read: a wrong address or method is that, whatever else is wrong, and costs no memory. */
export function answerUnknownRoutes(app: FastifyInstance) {
  const methods = new Map<string, Set<string>>()
  app.addHook('onRoute', (it) => {
    const known = methods.get(it.url) ?? new Set()
    for (const method of [it.method].flat()) known.add(method)
    methods.set(it.url, known)
  })
  function refuse(request: FastifyRequest): never {
    const path = request.url.split('?')[0]?.replace(/(?<=.)\/$/, '') ?? ''
    const known = methods.get(path) ?? methods.get(findPattern(path, methods.keys()) ?? '')
    if (!known) throw new HttpError('routeUnknown', `There is no ${shorten(path)}: see /reference for what there is.`)
    const allow = [...known].join(', ')
    throw new HttpError('wrongMethod', `${shorten(path)} does not take ${request.method}: use ${allow}.`, {
      headers: { allow },
    })
  }
  app.addHook('onRequest', (request, _reply, done) => {
    if (request.is404) refuse(request)
    done()
  })
  app.setNotFoundHandler(refuse)
}

/** What was sent is not echoed at length. */
const shorten = (text: string) => text.slice(0, 200)

/** The route of which the path is an instance: a part of it that begins with a colon stands for anything. */
function findPattern(path: string, routes: Iterable<string>): string | undefined {
  const parts = path.split('/')
  for (const route of routes) {
    const expected = route.split('/')
    if (expected.length !== parts.length) continue
    if (expected.every((it, at) => it === parts[at] || (it.startsWith(':') && parts[at] !== ''))) return route
  }
  return undefined
}

/** Answers a request with its refusal; what is a fault of ours goes to the log with its cause. */
export function sendError(error: FastifyError, request: FastifyRequest, reply: FastifyReply) {
  // Who asked has gone, and the stream that would have been the answer was ended for that.
  if (error.code === 'ERR_STREAM_PREMATURE_CLOSE' && reply.raw.destroyed) return
  const refusal = fromFramework(error, request) ?? toRefusal(error)
  logRefusal(request.log, refusal, error, request.routeOptions.url)
  // As bytes: what the router refuses meets no hook that would take Fastify's charset off again.
  const body = Buffer.from(JSON.stringify(toErrorEnvelope(refusal)))
  const send = () =>
    reply.code(refusal.status).headers(refusal.headers).header('content-type', 'application/json').send(body)
  if (refusal.holdMs === 0) return void send()
  // It was read already, and would be kept for as long as the answer is.
  request.body = undefined
  setTimeout(send, refusal.holdMs)
}

/** What is not the caller's doing is told to those who run the service. */
export function logRefusal(
  log: Pick<Logger, 'warn' | 'error'>,
  refusal: HttpError,
  error: unknown,
  url: string | undefined,
) {
  if (refusal.refusal === 'bug') log.error({ err: error, url }, 'a request failed')
  else if (refusal.refusal === 'unavailable') log.warn({ err: refusal.cause, url }, refusal.message)
}

/** Fastify's own refusals, by their code. */
function fromFramework(error: FastifyError, request: FastifyRequest): HttpError | undefined {
  switch (error.code) {
    case 'FST_ERR_CTP_BODY_TOO_LARGE':
      return tooLarge(request.routeOptions.bodyLimit ?? bodyBytesMaxDefault)
    case 'FST_ERR_CTP_INVALID_MEDIA_TYPE':
      return new HttpError('unsupportedType', 'The Content-Type is not understood: send application/json.')
    case 'FST_ERR_CTP_INVALID_CONTENT_LENGTH':
      return new HttpError('badRequest', 'The body has another length than Content-Length says.')
    case 'FST_ERR_BAD_URL':
      return new HttpError('badRequest', 'The address is not a valid URL path.')
  }
  if (error.statusCode !== undefined && error.statusCode >= 400 && error.statusCode < 500) {
    return new HttpError('badRequest', shorten(error.message))
  }
  return undefined
}

/** Answers what is no request, or takes too long to become one. An upload may take long: its pace is looked at instead. */
export function createBrokenRequestHandler({ isUploading }: Pick<UploadPace, 'isUploading'>) {
  return (error: NodeJS.ErrnoException, socket: Socket) => {
    if (error.code === 'ERR_HTTP_REQUEST_TIMEOUT' && isUploading(socket)) return
    answerBrokenRequest(error, socket)
  }
}

const httpFaults: Record<string, string> = {
  ERR_HTTP_REQUEST_TIMEOUT:
    'The request took too long to arrive: it was given 20 s for its headers, 60 s for all of it.',
  HPE_HEADER_OVERFLOW: 'The headers are over the limit of 16 KiB.',
}

/** What Node's parser could not read has no request to answer to, only a socket. */
function answerBrokenRequest(error: NodeJS.ErrnoException, socket: Socket & { _httpMessage?: ServerResponse | null }) {
  if (error.code === 'ECONNRESET' || !socket.writable) return
  const answer = socket._httpMessage
  // An earlier request that came whole gets its answer, which must not be taken for one to it; then the connection ends.
  if (answer?.req.complete && !answer.headersSent) return void answer.once('finish', () => socket.end())
  // In the middle of an answer nothing else can be said.
  if (answer?.headersSent) return void socket.destroy()
  const message = httpFaults[error.code ?? ''] ?? `The request is not valid HTTP (${error.code ?? 'unreadable'}).`
  const body = JSON.stringify(toErrorEnvelope(new HttpError('badRequest', message)))
  socket.end(
    `HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\ncontent-length: ${Buffer.byteLength(body)}\r\n` +
      `connection: close\r\n\r\n${body}`,
  )
}
