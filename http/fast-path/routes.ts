import { type IncomingHttpHeaders, STATUS_CODES } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Logger } from 'pino'
import { mapMaybeAsync } from '../../runtime/map-maybe-async.ts'
import type { Span } from '../../runtime/tracing.ts'
import { arrowType } from '../body/arrow.ts'
import { bodyBytesMaxDefault, createBodyReader } from '../body/body.ts'
import { checkFields } from '../body/fields.ts'
import type { Cors } from '../cors.ts'
import { logError } from '../error-answers.ts'
import { toHttpError } from '../errors.ts'
import { toScopeCheck } from '../key-scope.ts'
import { toErrorForClient } from '../logging-clients.ts'
import { toErrorAnswer } from '../mlflow-clients.ts'
import type { BodyRoom } from '../pressure.ts'
import type { RequestWatch } from '../request-watch.ts'
import type { Caller, FastPathRoute, Route } from '../route.ts'
import type { FastAnswer, FastRoute } from './fast-path.ts'

type Settings = {
  routes: Route[]
  /** The prefixes of all paths. */
  prefixes: string[]
  checkKey(headers: IncomingHttpHeaders): Caller | Promise<Caller>
  room: BodyRoom
  /** Sent with every answer. */
  safeHeaders: Record<string, string>
  cors: Cors | undefined
  watch: RequestWatch
  log: Logger
}

/** Longer bodies are rare and may take long to arrive. */
const bodyBytesMaxOfAll = 1024 * 1024

/** The routes of the fast path. They take the same steps in the same order as Node's server for a plain request. */
export function createFastRoutes(settings: Settings): Map<string, FastRoute> {
  const { checkKey, room, log, watch } = settings
  const { tracing } = watch
  const { readJson } = createBodyReader()
  const findAnswers = createAnswersByOrigin(settings)

  function toFastRoute(it: FastPathRoute): FastRoute {
    const watched = watch.route(it)
    const bodyBytesMax = Math.min(it.bodyBytesMax ?? bodyBytesMaxDefault, bodyBytesMaxOfAll)
    const checkScope = toScopeCheck(it)
    function work(headers: IncomingHttpHeaders, bytes: Buffer) {
      return mapMaybeAsync(checkKey(headers), (caller) => {
        checkScope(caller)
        const isArrow = it.takesArrow && headers['content-type'] === arrowType
        return mapMaybeAsync(isArrow ? bytes : readJson(bytes, undefined, bodyBytesMax), (body) =>
          it.handleFast({
            body: it.checksOwnBody ? body : it.body && checkFields(it.body, body ?? {}),
            caller,
            headers,
          }),
        )
      })
    }
    /** A request that is not admitted gets its error from Node's server. */
    function admit(headers: IncomingHttpHeaders, bodyBytes: number) {
      try {
        const known = mapMaybeAsync(checkKey(headers), () => room.take(bodyBytes))
        return known instanceof Promise ? known.catch(() => undefined) : known
      } catch {
        return undefined
      }
    }
    function answer(headers: IncomingHttpHeaders, bytes: Buffer): FastAnswer | Promise<FastAnswer> {
      const startedAt = performance.now()
      const span: Span | undefined = tracing && watched.begin(headers)
      const succeed = (body: string) => {
        watched.end(200, startedAt, span)
        return findAnswers(headers)(200, body)
      }
      const fail = (error: unknown): FastAnswer | Promise<FastAnswer> => {
        const found = toHttpError(error)
        logError(log, found, error, it.path)
        const httpError = toErrorForClient(found, headers, it.path)
        const { status, body } = toErrorAnswer(httpError, it.path)
        watched.end(status, startedAt, span)
        const answer = findAnswers(headers)(status, JSON.stringify(body), httpError.headers)
        return httpError.holdMs === 0 ? answer : sleep(httpError.holdMs, answer)
      }
      try {
        const answered = tracing ? tracing.within(span, () => work(headers, bytes)) : work(headers, bytes)
        return answered instanceof Promise ? answered.then(succeed, fail) : succeed(answered)
      } catch (error) {
        return fail(error)
      }
    }
    return { bodyBytesMax, takes: it.takesArrow ? arrowType : undefined, admit, answer }
  }

  const found = new Map<string, FastRoute>()
  for (const it of settings.routes) {
    if (!it.handleFast) continue
    const fast = toFastRoute(it)
    for (const prefix of it.atRoot ? [''] : settings.prefixes) found.set(`${it.method} ${prefix}${it.path}`, fast)
  }
  return found
}

type Answers = ReturnType<typeof createAnswers>

/** Answers with the headers that the origin of the request is allowed. */
function createAnswersByOrigin({ safeHeaders, cors }: Pick<Settings, 'safeHeaders' | 'cors'>) {
  const create = (origin?: string) => createAnswers({ ...safeHeaders, ...cors?.toHeaders(origin) })
  const others = create()
  const byOrigin = new Map(cors?.origins.map((origin) => [origin, create(origin)]))
  return byOrigin.size === 0
    ? (): Answers => others
    : ({ origin }: IncomingHttpHeaders): Answers => byOrigin.get(origin ?? '') ?? others
}

const dateForMs = 1_000

function createAnswers(safeHeaders: Record<string, string>) {
  const always = `${toLines(safeHeaders)}content-type: application/json\r\n`
  const heads = new Map<number, string>()
  let date = ''
  let dateAtMs = Number.NEGATIVE_INFINITY

  function toHead(status: number): string {
    let head = heads.get(status)
    if (head === undefined) {
      head = `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n${always}`
      heads.set(status, head)
    }
    return head
  }

  return function toAnswer(status: number, body: string, headers?: Record<string, string>): FastAnswer {
    const nowMs = performance.now()
    if (nowMs - dateAtMs > dateForMs) {
      date = new Date().toUTCString()
      dateAtMs = nowMs
    }
    const length = `content-length: ${Buffer.byteLength(body)}\r\ndate: ${date}\r\n`
    return { head: toHead(status) + (headers ? toLines(headers) : '') + length, body }
  }
}

function toLines(headers: Record<string, string>): string {
  return Object.entries(headers)
    .map(([name, value]) => `${name}: ${value}\r\n`)
    .join('')
}
