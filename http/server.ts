import helmet from '@fastify/helmet'
import fastify, {
  type FastifyBaseLogger,
  type FastifyError,
  type FastifyInstance,
  type FastifyReply,
  type FastifyRequest,
  LogController,
} from 'fastify'
import type { Logger } from 'pino'
import { mapMaybeAsync } from '../runtime/map-maybe-async.ts'
import type { Span, Tracing } from '../runtime/tracing.ts'
import { bodyBytesMaxDefault, createBodyReader } from './body/body.ts'
import { checkFields } from './body/fields.ts'
import { createUploadPace, defaultUploadLimits, type UploadLimits, type UploadPace } from './body/upload-pace.ts'
import { answerOddHeads, answerUnknownRoutes, createBrokenRequestHandler, sendError } from './error-answers.ts'
import { adminOnly, HttpError } from './errors.ts'
import { type FastPath, openFastPath } from './fast-path/fast-path.ts'
import { createFastRoutes } from './fast-path/routes.ts'
import { addHealthRoutes, type Health } from './health.ts'
import { addReference } from './openapi/openapi.ts'
import {
  createBodyRoom,
  createPressureCheck,
  defaultPressureLimits,
  type PressureCheck,
  type PressureLimits,
  smallBodyBytes,
} from './pressure.ts'
import { createRequestWatch, type RequestWatch } from './request-watch.ts'
import {
  type Caller,
  checkPermission,
  prefix,
  type Route,
  type RouteDescription,
  toEnvelope,
  toUrl,
  uploadTypes,
} from './route.ts'

/** Older clients use this one for the same calls. */
const clientPrefix = '/clientlib/rest/v2'
const prefixes = [prefix, clientPrefix]

type Settings = {
  routes: Route[]
  /** What other processes serve behind the same address: the reference has it too. */
  elsewhere?: RouteDescription[]
  checkKey(headers: FastifyRequest['headers']): Caller | Promise<Caller>
  health: Health
  version: string
  log: Logger
  /** When there is somebody to send spans to. */
  tracing?: Tracing
  /** How long a caller may leave a long answer unread. */
  unreadMsMax?: number
  /** False leaves every request to Node's own server, those of the fast path too. */
  hasFastPath?: boolean
  pressure?: PressureLimits
  uploads?: UploadLimits
  /** How long the headers and the whole of a request may take to arrive, unless it is an upload; how often is looked. */
  arrival?: { headersMsMax: number; requestMsMax: number; everyMs: number }
}

/** While nobody reads it, an answer holds one of the connections to ClickHouse, and other reads wait for that. */
const unreadMsMaxDefault = 20_000
/** Longer than proxies keep connections to us, or they would send on one that is being closed. */
const keptAliveMs = 75_000
/** What comes in pieces mostly comes at once. */
const restWaitMs = 1_000
const arrivalDefault = { headersMsMax: 20_000, requestMsMax: 60_000, everyMs: 30_000 }

/**
 * One HTTP server for a list of routes: key check, limits on bodies, errors as envelopes, health, metrics and the
 * reference page. It does not listen yet.
 */
export async function createServer(settings: Settings): Promise<FastifyInstance> {
  const { routes, health, version, log, arrival = arrivalDefault } = settings
  const pace = createUploadPace(settings.uploads ?? defaultUploadLimits)
  const app = fastify({
    loggerInstance: log as FastifyBaseLogger,
    logController: new LogController({ disableRequestLogging: true }),
    bodyLimit: bodyBytesMaxDefault,
    requestTimeout: arrival.requestMsMax,
    keepAliveTimeout: keptAliveMs,
    connectionTimeout: 0,
    // What comes on a connection that is about to be closed is answered like anything else.
    return503OnClosing: false,
    maxRequestsPerSocket: 0,
    http: {
      headersTimeout: arrival.headersMsMax,
      requireHostHeader: false,
      connectionsCheckingInterval: arrival.everyMs,
    },
    // A part of a path that is too long is refused like any other field, by its name.
    routerOptions: { maxParamLength: 4_000, ignoreTrailingSlash: true },
    // What the parser of Node refuses (a broken request line, headers too large) gets our envelope too.
    clientErrorHandler: createBrokenRequestHandler(pace),
    // As does what the router refuses before any hook runs.
    frameworkErrors: (error, request, reply) => sendError(error, request, reply as FastifyReply),
  })
  app.setErrorHandler((error: FastifyError, request, reply) => sendError(error, request, reply))
  answerOddHeads(app)
  answerUnknownRoutes(app)
  readBodiesOurWay(app)
  sendJsonWithoutCharset(app)
  const safeHeaders = await collectSafeHeaders()
  app.addHook('onRequest', (_request, reply, done) => {
    reply.headers(safeHeaders)
    if (health.isDraining()) reply.header('connection', 'close')
    done()
  })
  addReference(app, { version, routes: [...routes, ...(settings.elsewhere ?? [])] })
  addHealthRoutes(app, health)
  const watch = createRequestWatch({ metricsRegistry: health.metricsRegistry, tracing: settings.tracing })
  const room = createBodyRoom(settings.pressure ?? defaultPressureLimits)
  await app.register(async (scope) => {
    const checkPressure = createPressureCheck(room)
    for (const it of routes) if (!it.upload) addRoute(scope, it, { ...settings, watch, admit: checkPressure })
  })
  await app.register(async (scope) => {
    leaveBodiesUnread(scope)
    for (const it of routes) if (it.upload) addRoute(scope, it, { ...settings, watch, admit: pace.admit })
  })
  const { checkKey } = settings
  const fastPath =
    settings.hasFastPath !== false
      ? openFastPath({
          server: app.server,
          routes: createFastRoutes({ routes, prefixes, checkKey, room, safeHeaders, watch, log }),
          smallBodyBytes,
          restWaitMs,
          idleMsMax: keptAliveMs,
          isDraining: health.isDraining,
        })
      : noFastPath
  app.decorate('fastPath', fastPath)
  app.addHook('preClose', async () => fastPath.letGo())
  return app
}

const noFastPath: FastPath = { letGo: () => undefined, isBusy: () => false }

declare module 'fastify' {
  interface FastifyInstance {
    fastPath: FastPath
  }
}

type RouteSettings = Pick<Settings, 'checkKey' | 'unreadMsMax'> & {
  watch: RequestWatch
  admit: PressureCheck | UploadPace['admit']
}

function addRoute(app: FastifyInstance, it: Route, settings: RouteSettings) {
  const { checkKey, admit, watch, unreadMsMax = unreadMsMaxDefault } = settings
  const { tracing } = watch
  const watched = watch.route(it)
  const bodyLimit = it.bodyBytesMax ?? bodyBytesMaxDefault
  checkPermission(it)
  const checkCaller = toCallerCheck(it.permission, checkKey)
  for (const base of it.atRoot ? [''] : prefixes) {
    app.route({
      method: it.method,
      url: toUrl(it, base),
      bodyLimit,
      // Some writes are GETs, and a new key would be lost with the body of the answer.
      exposeHeadRoute: !it.path.startsWith('/write/'),
      schema: { ...(it.body && { body: it.body }), ...(it.upload && { consumes: uploadTypes }) },
      validatorCompiler: () => () => true,
      serializerCompiler: () => (answer) => JSON.stringify(answer),
      onRequest: [
        function watchRequest(request: FastifyRequest, reply: FastifyReply, done: (error?: Error) => void) {
          const startedAt = performance.now()
          const span = tracing && watched.begin(request.headers)
          if (span) request.span = span
          // Also when the connection breaks before the answer has gone.
          reply.raw.once('close', () => watched.end(toStatus(reply), startedAt, span))
          done()
        },
        function checkKeyFirst(request: FastifyRequest, reply: FastifyReply, done: (error?: Error) => void) {
          if (it.permission === 'anyone') return done()
          const remember = (caller: Caller) => {
            request.caller = caller
          }
          const goOn = (error?: Error) => (error ? done(error) : admit(request, reply, done))
          settle(() => checkCaller(request), remember, goOn)
        },
      ],
      handler: async (request, reply) => {
        if (request.body instanceof UnreadableBody) throw request.body.error
        const handle = () =>
          it.handle({
            body: it.checksOwnBody ? request.body : it.body && checkFields(it.body, request.body ?? {}),
            query: it.query && checkFields(it.query, request.query),
            params: it.params && checkFields(it.params, request.params),
            caller: request.caller,
            headers: request.headers,
            request,
            reply,
          })
        const answer = await (tracing ? tracing.within(request.span, handle) : handle())
        if (reply.sent) return reply
        // A connection on which nothing moves for so long is ended, and the stream with it.
        if (isStream(answer)) reply.raw.setTimeout(unreadMsMax)
        if (it.shape === 'empty') return reply.code(204).send()
        if (it.shape === 'bytes') return reply.send(answer)
        if (it.shape === 'text') return reply.type('text/plain').send(answer)
        if (typeof answer === 'string' || isStream(answer)) return reply.type('application/json').send(answer)
        if (it.shape === 'plain') return answer
        return toEnvelope(answer as object)
      },
    })
  }
}

/** The key check runs before the body is read: strangers cost no memory. */
declare module 'fastify' {
  interface FastifyRequest {
    caller: Caller
    span?: Span
  }
}

/** What proxies call it when a caller goes away before it has its answer. */
const clientGone = 499

function toStatus({ raw }: FastifyReply): number {
  return raw.headersSent ? raw.statusCode : clientGone
}

type CallerCheck = (request: FastifyRequest) => Caller | Promise<Caller>

function toCallerCheck(permission: Route['permission'], checkKey: Settings['checkKey']): CallerCheck {
  const check: CallerCheck = ({ headers }) => checkKey(headers)
  if (permission === 'admin') return (request) => mapMaybeAsync(check(request), requireAdmin)
  if (permission !== 'reader') return check
  return (request) => {
    const { shareCode } = request.query as { shareCode?: unknown }
    if (typeof shareCode !== 'string') return check(request)
    try {
      // Whoever has both may read what either opens.
      return mapMaybeAsync(check(request), (caller) => ({ ...caller, shareCode }))
    } catch (error) {
      if (error instanceof HttpError && error.kind === 'keyMissing') return toVisitor(shareCode)
      throw error
    }
  }
}

function requireAdmin(caller: Caller): Caller {
  if (caller.isAdmin) return caller
  throw adminOnly()
}

/** The id of nobody. */
const nobody = '00000000-0000-0000-0000-000000000000'

/** Somebody without a key: sees what the share code opens, and nothing else. */
function toVisitor(shareCode: string): Caller {
  return {
    keyId: nobody,
    userId: nobody,
    userName: '',
    kind: 'person',
    organizationId: nobody,
    isAdmin: false,
    defaultWorkspaceName: null,
    limits: {},
    shareCode,
  }
}

function isStream(answer: unknown): answer is NodeJS.ReadableStream {
  return typeof answer === 'object' && answer !== null && 'pipe' in answer
}

function readBodiesOurWay(app: FastifyInstance) {
  const readJsonBody = createBodyReader()
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('application/json', { parseAs: 'buffer' }, (request, bytes: Buffer, done) => {
    // Where nothing is asked for, nothing need be sent, also by a client that names a type for it.
    if (bytes.length === 0 && request.routeOptions.schema?.body === undefined) return done(null)
    const encoding = request.headers['content-encoding']?.toLowerCase()
    const bytesMax = request.routeOptions.bodyLimit ?? bodyBytesMaxDefault
    settle(
      () => readJsonBody(bytes, encoding, bytesMax),
      (body) => done(null, body),
      (error) => error && done(null, new UnreadableBody(error)),
    )
  })
  // A client that names no type sends JSON: but for files there is nothing else to send here.
  app.addHook('onRequest', (request, _reply, done) => {
    const takesFile = request.routeOptions.schema?.consumes !== undefined
    if (request.method !== 'GET' && !takesFile) request.headers['content-type'] ??= 'application/json'
    done()
  })
}

/** A body that has come as a whole and is no JSON. To Fastify it is one: it closes the connection of a body that fails. */
class UnreadableBody {
  readonly error: Error
  constructor(error: Error) {
    this.error = error
  }
}

/** A file has any content type; its handler reads it. */
function leaveBodiesUnread(app: FastifyInstance) {
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('*', (_request, _body, done) => done(null))
}

/**
 * Runs what mostly has its result at once and sometimes only promises it. A promise for every request would cost each a
 * turn of the event loop (measured: a third of the CPU of a small write, together with the other hooks).
 */
function settle<T>(work: () => T | Promise<T>, use: (result: T) => void, done: (error?: Error) => void) {
  const finish = (result: T) => {
    use(result)
    done()
  }
  let result: T | Promise<T>
  try {
    result = work()
  } catch (error) {
    return done(error as Error)
  }
  if (result instanceof Promise) result.then(finish, done)
  else finish(result)
}

/** What helmet sets on every answer. It is the same each time, so it is asked once. */
async function collectSafeHeaders(): Promise<Record<string, string>> {
  const app = fastify()
  await app.register(helmet, { contentSecurityPolicy: false, global: true })
  app.get('/', (_request, reply) => reply.send())
  const { headers } = await app.inject('/')
  await app.close()
  const ownHeaders = new Set(['content-length', 'content-type', 'date', 'connection'])
  return Object.fromEntries(Object.entries(headers).filter(([name]) => !ownHeaders.has(name))) as Record<string, string>
}

/** One client compares the header for equality with `application/json`, so the charset that Fastify adds goes again. */
function sendJsonWithoutCharset(app: FastifyInstance) {
  app.addHook('onSend', (_request, reply, _payload, done) => {
    const type = reply.getHeader('content-type')
    if (typeof type === 'string' && type.startsWith('application/json;'))
      reply.header('content-type', 'application/json')
    done()
  })
}
