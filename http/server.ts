import type { ServerResponse } from 'node:http'
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
import type { Span, Tracing } from '../runtime/tracing.ts'
import type { Tenants } from '../throttle/tenants.ts'
import { awaitExperiment, readWaitMs } from './await-experiment.ts'
import { arrowType } from './body/arrow.ts'
import { bodyBytesMaxDefault, createBodyReader } from './body/body.ts'
import { checkFields } from './body/fields.ts'
import { createUploadPace, defaultUploadLimits, type UploadLimits, type UploadPace } from './body/upload-pace.ts'
import { toCallerCheck } from './caller-check.ts'
import { addCompression, compressed } from './compressed-answers.ts'
import { addCors, type Cors } from './cors.ts'
import { withNamesDecodedAgain } from './encoded-twice.ts'
import {
  answerOddHeads,
  answerUnknownRoutes,
  createBrokenRequestHandler,
  sendError,
  unknownType,
} from './error-answers.ts'
import { type FastPath, openFastPath } from './fast-path/fast-path.ts'
import { createFastRoutes } from './fast-path/routes.ts'
import { addHealthRoutes, type Health } from './health.ts'
import { toMlflowPath } from './mlflow-clients.ts'
import { addReference } from './openapi/openapi.ts'
import { addPages, type Pages } from './pages.ts'
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
  checkDeclarations,
  isChargedCall,
  isRead,
  mayChange,
  prefix,
  type Route,
  type RouteDescription,
  toEnvelope,
  toParams,
  toUrl,
  uploadTypes,
} from './route.ts'
import { addProviderPages, type ProviderSignIn } from './sign-in/provider-pages.ts'
import type { ProxyCheck } from './sign-in/proxy-check.ts'
import { addSignInLink } from './sign-in-link.ts'

/** Older clients use this prefix for the same routes. */
const clientPrefix = '/clientlib/rest/v2'
const prefixes = [prefix, clientPrefix]

type Settings = {
  routes: Route[]
  /** Routes that other processes serve at the same address; the reference page shows them too. */
  otherRoutes?: RouteDescription[]
  checkKey(headers: FastifyRequest['headers']): Caller | Promise<Caller>
  /** Charges a caller for one call that changes something; without it, no call is charged. The answer gives the charge back. */
  chargeCall?: CallCharge
  /** Absent when no reverse proxy signs people in. */
  checkProxy?: ProxyCheck | undefined
  /** Runs a call of the api for its tenant, whose limits hold for what it does. */
  tenants?: Pick<Tenants, 'within'>
  /** Undefined for a request without the session of a browser. */
  checkSession?(headers: FastifyRequest['headers'], mayChange: boolean): Caller | Promise<Caller> | undefined
  /** Opens a session with the token of a sign-in link; answers its cookie, or undefined when the link no longer works. */
  signInWithLink?(token: string, headers: FastifyRequest['headers']): Promise<string | undefined>
  /** Absent without OpenID Connect providers. */
  providerSignIn?: ProviderSignIn | undefined
  health: Health
  version: string
  /** Absent for processes that serve no web interface. */
  pages?: Parameters<typeof addPages>[1]
  log: Logger
  /** Absent when tracing is off. */
  tracing?: Tracing
  /** How long a caller may leave a streamed answer unread. */
  unreadMsMax?: number
  /** False turns the fast path off. */
  hasFastPath?: boolean
  /** Absent when no other origin may call. */
  cors?: Cors
  pressure?: PressureLimits
  uploads?: UploadLimits
  /** How long the headers and the whole of a request may take to arrive, except uploads; checked every `everyMs`. */
  arrival?: { headersMsMax: number; requestMsMax: number; everyMs: number }
}

/** An unread answer holds a connection to ClickHouse that other reads need. */
const unreadMsMaxDefault = 20_000
/** Longer than proxies keep idle connections, or else they would send requests on one that is being closed. */
const keptAliveMs = 75_000
/** How long the fast path waits for the rest of a request; the rest of most arrives at once. */
const restWaitMs = 1_000
/** An export is asked for by GET: its query may have 10,000 characters, each of up to three bytes in a URL, and its part as many. */
const headerBytesMax = 64 * 1024
const arrivalDefault = { headersMsMax: 20_000, requestMsMax: 60_000, everyMs: 30_000 }

/**
 * One HTTP server for a list of routes: key check, limits on bodies, errors as envelopes, health, metrics and the
 * reference page. It does not listen yet.
 */
export async function createServer(settings: Settings): Promise<FastifyInstance> {
  const { routes, health, version, log, cors, arrival = arrivalDefault } = settings
  const pace = createUploadPace(settings.uploads ?? defaultUploadLimits)
  const app = fastify({
    loggerInstance: log as FastifyBaseLogger,
    logController: new LogController({ disableRequestLogging: true }),
    bodyLimit: bodyBytesMaxDefault,
    requestTimeout: arrival.requestMsMax,
    keepAliveTimeout: keptAliveMs,
    connectionTimeout: 0,
    // Requests that arrive during a shutdown are answered normally.
    return503OnClosing: false,
    maxRequestsPerSocket: 0,
    http: {
      headersTimeout: arrival.headersMsMax,
      requireHostHeader: false,
      connectionsCheckingInterval: arrival.everyMs,
      maxHeaderSize: headerBytesMax,
    },
    // A longer path parameter gets our error for its field.
    routerOptions: { maxParamLength: 4_000, ignoreTrailingSlash: true },
    // Errors of Node's parser (a broken request line, headers too large) get our envelope too.
    clientErrorHandler: createBrokenRequestHandler(pace),
    rewriteUrl: ({ url = '/' }) => toMlflowPath(url),
    // So do errors of the router, which come before any hook.
    frameworkErrors: (error, request, reply) => {
      if (cors) reply.headers(cors.toHeaders(request.headers.origin))
      sendError(error, request, reply as FastifyReply)
    },
  })
  app.setErrorHandler((error: FastifyError, request, reply) => sendError(error, request, reply))
  if (cors) addCors(app, cors)
  answerOddHeads(app)
  let pages: Pages | undefined
  answerUnknownRoutes(app, () => pages)
  readBodiesOurWay(app)
  sendJsonWithoutCharset(app)
  const safeHeaders = await collectSafeHeaders()
  app.addHook('onRequest', (_request, reply, done) => {
    reply.headers(safeHeaders)
    if (health.isDraining()) reply.header('connection', 'close')
    done()
  })
  if (settings.signInWithLink) addSignInLink(app, settings.signInWithLink)
  if (settings.providerSignIn) addProviderPages(app, settings.providerSignIn)
  pages = settings.pages && (await addPages(app, settings.pages))
  if (!pages) app.get('/', { schema: { hide: true } }, async (_request, reply) => reply.redirect('/reference'))
  addReference(app, { version, routes: [...routes, ...(settings.otherRoutes ?? [])] })
  addHealthRoutes(app, health)
  const watch = createRequestWatch({ metricsRegistry: health.metricsRegistry, tracing: settings.tracing })
  const room = createBodyRoom(settings.pressure ?? defaultPressureLimits)
  await app.register(async (scope) => {
    await addCompression(scope)
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
          routes: createFastRoutes({ routes, prefixes, checkKey, room, safeHeaders, cors, watch, log }),
          smallBodyBytes,
          restWaitMs,
          idleMsMax: keptAliveMs,
          isDraining: health.isDraining,
        })
      : noFastPath
  app.decorate('fastPath', fastPath)
  app.addHook('preClose', async () => fastPath.drain())
  return app
}

const noFastPath: FastPath = { drain: () => undefined, isBusy: () => false }

declare module 'fastify' {
  interface FastifyInstance {
    fastPath: FastPath
  }
}

type RouteSettings = Pick<
  Settings,
  'checkKey' | 'chargeCall' | 'checkProxy' | 'checkSession' | 'tenants' | 'unreadMsMax'
> & {
  watch: RequestWatch
  admit: PressureCheck | UploadPace['admit']
}

function addRoute(app: FastifyInstance, it: Route, settings: RouteSettings) {
  const { admit, watch, chargeCall, unreadMsMax = unreadMsMaxDefault } = settings
  const { tracing } = watch
  const watched = watch.route(it)
  const bodyLimit = it.bodyBytesMax ?? bodyBytesMaxDefault
  checkDeclarations(it)
  const checkCaller = toCallerCheck(it, settings)
  // The bytes of an upload come only once.
  const mayWait = mayChange(it) && !it.upload
  for (const base of it.atRoot ? [''] : prefixes) {
    app.route({
      method: it.method,
      url: toUrl(it, base),
      bodyLimit,
      // Some writes are GETs: a HEAD would execute them and drop the answer, such as a new key.
      exposeHeadRoute: !mayChange(it),
      ...(hasLongAnswers(it) && { compress: compressed }),
      config: { takesArrow: it.takesArrow ?? false },
      schema: { ...(it.body && !it.mayLackBody && { body: it.body }), ...(it.upload && { consumes: uploadTypes }) },
      validatorCompiler: () => () => true,
      serializerCompiler: () => (answer) => JSON.stringify(answer),
      onRequest: [
        function watchRequest(request: FastifyRequest, reply: FastifyReply, done: (error?: Error) => void) {
          const startedAt = performance.now()
          const span = tracing && watched.begin(request.headers)
          if (span) request.span = span
          // Also when the connection breaks before the answer is sent.
          reply.raw.once('close', () => watched.end(toStatus(reply), startedAt, span))
          done()
        },
        function checkKeyFirst(request: FastifyRequest, reply: FastifyReply, done: (error?: Error) => void) {
          if (it.permission === 'anyone') return done()
          const remember = (caller: Caller) => {
            request.caller = caller
          }
          const next = (error?: Error) => (error ? done(error) : admit(request, reply, done))
          settle(() => checkCaller(request), remember, next)
        },
      ],
      handler: async (request, reply) => {
        if (request.body instanceof UnreadableBody) throw request.body.error
        const handleQuery = async (query: unknown) =>
          it.handle({
            body: it.checksOwnBody ? request.body : it.body && checkFields(it.body, request.body ?? {}),
            query: it.query && checkFields(it.query, query),
            params: it.params && checkFields(it.params, toParams(it, request.params)),
            caller: request.caller,
            headers: request.headers,
            request,
            reply,
          })
        const handleOnce = () =>
          it.method === 'GET' ? withNamesDecodedAgain(request.query as object, handleQuery) : handleQuery(request.query)
        const waitMs = mayWait ? readWaitMs(request.headers) : 0
        const handleAll = waitMs === 0 ? handleOnce : () => awaitExperiment(handleOnce, waitMs)
        const isCharged = chargeCall && isChargedCall(it) && it.permission !== 'anyone'
        const handle = isCharged ? () => withCharge(chargeCall, request.caller, handleAll) : handleAll
        const handleTraced = () => (tracing ? tracing.within(request.span, handle) : handle())
        const { userId, organizationId } = request.caller ?? {}
        const answer = await (it.tier === 'api' && settings.tenants && userId !== undefined
          ? settings.tenants.within(
              { userId, organizationId: organizationId ?? null, ...(isRead(it) && { signal: toSignal(reply.raw) }) },
              handleTraced,
            )
          : handleTraced())
        if (reply.sent) return reply
        // An idle connection is closed, and the stream with it.
        if (isStream(answer)) endUnread(reply.raw, unreadMsMax)
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

type CallCharge = (caller: Caller) => Promise<() => void>

/** A call that fails costs nothing. */
async function withCharge<T>(charge: CallCharge, caller: Caller, handle: () => T | Promise<T>): Promise<T> {
  const giveBack = await charge(caller)
  try {
    return await handle()
  } catch (error) {
    giveBack()
    throw error
  }
}

/** Aborted when the client leaves before it has its answer. */
function toSignal(answer: ServerResponse): AbortSignal {
  const left = new AbortController()
  answer.once('close', () => answer.writableFinished || left.abort())
  return left.signal
}

/** Ends an answer of which the client has read nothing for so long. One that waits for its source goes on. */
function endUnread(answer: ServerResponse, unreadMsMax: number) {
  answer.setTimeout(unreadMsMax, () => {
    if (answer.socket?.writableLength) answer.socket.destroy()
    else answer.socket?.setTimeout(unreadMsMax)
  })
}

/** Reads that answer JSON. Files are sent as they are stored, and answers to writes are short. */
function hasLongAnswers({ tier, shape }: Route): boolean {
  return tier !== 'ingest' && (shape === 'envelope' || shape === 'plain')
}

/** The key check runs before the body is read, so a request without a valid key costs no memory. */
declare module 'fastify' {
  interface FastifyRequest {
    caller: Caller
    span?: Span
  }
  interface FastifyContextConfig {
    /** Set for the routes of the interface. */
    takesArrow?: boolean
  }
}

/** The status that proxies log when a caller disconnects before its answer. */
const clientGone = 499

function toStatus({ raw }: FastifyReply): number {
  return raw.headersSent ? raw.statusCode : clientGone
}

function isStream(answer: unknown): answer is NodeJS.ReadableStream {
  return typeof answer === 'object' && answer !== null && 'pipe' in answer
}

function readBodiesOurWay(app: FastifyInstance) {
  const { readJson, readBytes } = createBodyReader()
  const parseWith =
    (read: (...args: Parameters<typeof readJson>) => unknown) =>
    (request: FastifyRequest, bytes: Buffer, done: (error: null, body?: unknown) => void) => {
      // Some clients send a content type without a body.
      if (bytes.length === 0 && request.routeOptions.schema?.body === undefined) return done(null)
      const encoding = request.headers['content-encoding']?.toLowerCase()
      const bytesMax = request.routeOptions.bodyLimit ?? bodyBytesMaxDefault
      settle(
        () => read(bytes, encoding, bytesMax),
        (body) => done(null, body),
        (error) => error && done(null, new UnreadableBody(error)),
      )
    }
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('application/json', { parseAs: 'buffer' }, parseWith(readJson))
  const parseArrow = parseWith(readBytes)
  app.addContentTypeParser(arrowType, { parseAs: 'buffer' }, (request, bytes: Buffer, done) => {
    if (request.routeOptions.config.takesArrow) parseArrow(request, bytes, done)
    else done(null, new UnreadableBody(unknownType()))
  })
  // A body without a content type is JSON, except on routes that take a file.
  app.addHook('onRequest', (request, _reply, done) => {
    const takesFile = request.routeOptions.schema?.consumes !== undefined
    if (request.method !== 'GET' && !takesFile) request.headers['content-type'] ??= 'application/json'
    done()
  })
}

/** A complete body that is not JSON. The handler throws its error: Fastify would close the connection of a failed body. */
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
 * Runs work that may be synchronous or return a promise. A promise for every request would cost each a turn of the event
 * loop (measured: a third of the CPU of a small write, together with the other hooks).
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

/** The headers that helmet sets on every answer. They are always the same, so helmet runs once. */
async function collectSafeHeaders(): Promise<Record<string, string>> {
  const app = fastify()
  await app.register(helmet, { contentSecurityPolicy: false, global: true })
  app.get('/', (_request, reply) => reply.send())
  const { headers } = await app.inject('/')
  await app.close()
  const ownHeaders = new Set(['content-length', 'content-type', 'date', 'connection'])
  return Object.fromEntries(Object.entries(headers).filter(([name]) => !ownHeaders.has(name))) as Record<string, string>
}

/** Removes the charset that Fastify adds: one client compares the header with `application/json`. */
function sendJsonWithoutCharset(app: FastifyInstance) {
  app.addHook('onSend', (_request, reply, _payload, done) => {
    const type = reply.getHeader('content-type')
    if (typeof type === 'string' && type.startsWith('application/json;'))
      reply.header('content-type', 'application/json')
    done()
  })
}
