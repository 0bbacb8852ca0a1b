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
import { bodyBytesMaxDefault, readJsonBody } from './body.ts'
import { toFieldRefusal } from './fields.ts'
import { addHealthRoutes, type Health } from './health.ts'
import { addReference } from './openapi.ts'
import { describeAnswers, toOperationId } from './openapi-schemas.ts'
import { answerBrokenRequest, answerUnknownRoutes, sendError } from './refuse.ts'
import type { Caller, Route } from './route.ts'

const prefix = '/api/rest/v2'
/** Older clients use this one for the same calls. */
const clientPrefix = '/clientlib/rest/v2'

type Settings = {
  routes: Route[]
  checkKey(headers: FastifyRequest['headers']): Caller | Promise<Caller>
  health: Health
  version: string
  log: Logger
}

/**
 * One HTTP server for a list of routes: key check, limits on bodies, errors as envelopes, health, metrics and the
 * reference page. It does not listen yet.
 */
export async function createServer({ routes, checkKey, health, version, log }: Settings): Promise<FastifyInstance> {
  const app = fastify({
    loggerInstance: log as FastifyBaseLogger,
    logController: new LogController({ disableRequestLogging: true }),
    bodyLimit: bodyBytesMaxDefault,
    requestTimeout: 60_000,
    keepAliveTimeout: 75_000,
    connectionTimeout: 0,
    maxRequestsPerSocket: 0,
    http: { headersTimeout: 20_000 },
    routerOptions: { maxParamLength: 200, ignoreTrailingSlash: true },
    // What the parser of Node refuses (a broken request line, headers too large) gets our envelope too.
    clientErrorHandler: answerBrokenRequest,
    // As does what the router refuses before any hook runs.
    frameworkErrors: (error, request, reply) => sendError(error, request, reply as FastifyReply),
  })
  app.setErrorHandler((error: FastifyError, request, reply) => sendError(error, request, reply))
  answerUnknownRoutes(app)
  readBodiesOurWay(app)
  sendJsonWithoutCharset(app)
  const safeHeaders = await collectSafeHeaders()
  app.addHook('onRequest', (_request, reply, done) => {
    reply.headers(safeHeaders)
    done()
  })
  await addReference(app, { version })
  addHealthRoutes(app, health)
  await app.register(async (scope) => {
    for (const it of routes) addRoute(scope, it, checkKey)
  })
  return app
}

function addRoute(app: FastifyInstance, it: Route, checkKey: Settings['checkKey']) {
  const bodyLimit = it.bodyBytesMax ?? bodyBytesMaxDefault
  for (const base of [prefix, clientPrefix]) {
    app.route({
      method: it.method,
      url: `${base}${it.path}`,
      bodyLimit,
      schema: {
        operationId: toOperationId(it),
        // The path is what a reader looks for in the list; the sentence then says what it does.
        summary: it.path.slice(1),
        description: it.summary,
        tags: [it.topic],
        hide: base !== prefix,
        ...(it.body && { body: it.body }),
        ...(it.query && { querystring: it.query }),
        response: describeAnswers(it),
        ...(it.permission === 'caller' && { security: [{ apiKey: [] }] }),
      },
      validatorCompiler: () => () => true,
      serializerCompiler: () => (answer) => JSON.stringify(answer),
      ...(it.permission === 'caller' && {
        onRequest(request: FastifyRequest, _reply: FastifyReply, done: (error?: Error) => void) {
          const remember = (caller: Caller) => {
            request.caller = caller
          }
          settle(() => checkKey(request.headers), remember, done)
        },
      }),
      handler: async (request, reply) => {
        const answer = await it.handle({
          body: it.checksOwnBody ? request.body : check(it.body, request.body ?? {}),
          query: check(it.query, request.query),
          caller: request.caller,
          request,
          reply,
        })
        if (reply.sent) return reply
        if (typeof answer === 'string' || isStream(answer)) return reply.type('application/json').send(answer)
        if (it.shape === 'plain') return answer
        return { msg: 'Ok', ...(answer as object), code: 200, data: null, sdk_error_code: 0 }
      },
    })
  }
}

/** The key check runs before the body is read: strangers cost no memory. */
declare module 'fastify' {
  interface FastifyRequest {
    caller: Caller
  }
}

function isStream(answer: unknown): answer is NodeJS.ReadableStream {
  return typeof answer === 'object' && answer !== null && 'pipe' in answer
}

function check(fields: Route['body'], value: unknown): unknown {
  if (!fields) return undefined
  const checked = fields.safeParse(value)
  if (checked.success) return checked.data
  throw toFieldRefusal(checked.error, value)
}

function readBodiesOurWay(app: FastifyInstance) {
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('application/json', { parseAs: 'buffer' }, (request, bytes: Buffer, done) => {
    const encoding = request.headers['content-encoding']?.toLowerCase()
    const bytesMax = request.routeOptions.bodyLimit ?? bodyBytesMaxDefault
    settle(
      () => readJsonBody(bytes, encoding, bytesMax),
      (body) => done(null, body),
      (error) => error && done(error),
    )
  })
  // A client that names no type sends JSON: there is nothing else to send here.
  app.addHook('onRequest', (request, _reply, done) => {
    if (request.method !== 'GET') request.headers['content-type'] ??= 'application/json'
    done()
  })
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
