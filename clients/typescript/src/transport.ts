import type { paths } from './api.ts'
import { orSet } from './environment.ts'
import type { Platform } from './platform.ts'
import type { Connection } from './settings.ts'

/** The service could not take it, now: it may be sent again. */
export class Unavailable extends Error {
  readonly retryAfterMs: number | undefined
  readonly isThrottled: boolean
  /** A fault of the service's own, which the same request may meet for ever. */
  readonly isFault: boolean

  constructor(message: string, more: { retryAfterMs?: number; isThrottled?: boolean; isFault?: boolean } = {}) {
    super(message)
    this.retryAfterMs = more.retryAfterMs
    this.isThrottled = more.isThrottled ?? false
    this.isFault = more.isFault ?? false
  }
}

/** The service does not take it, and would not the next time. */
export class Refused extends Error {
  readonly status: number
  /** Its `sdk_error_code`. */
  readonly code: number

  constructor(message: string, status: number, code: number) {
    super(message)
    this.status = status
    this.code = code
  }
}

type Json<Holder> = Holder extends { content: { 'application/json': infer Body } } ? Body : never
type Post<Path extends keyof paths> = paths[Path] extends { post: infer Operation } ? Operation : never
type Get<Path extends keyof paths> = paths[Path] extends { get: infer Operation } ? Operation : never
type Success<Operation> = Operation extends { responses: { 200: infer Answer } } ? Json<Answer> : never
export type Body<Path extends keyof paths> = Post<Path> extends { requestBody: infer Holder } ? Json<Holder> : never
export type Answer<Path extends keyof paths> = Success<Post<Path>>

export type Transport = ReturnType<typeof createTransport>

const gzipBytesMin = 8 * 1024
const retryAfterMsMax = 3_600_000

/**
 * Calls the service with the account's key.
 *
 * @param stop aborts what is under way
 * @param isLast the page closes: each call is begun at once, and goes on without the page
 */
export function createTransport(connection: Connection, stop: AbortSignal, platform: Platform, isLast = false) {
  const { url, apiKey, requestTimeoutMs } = connection
  let { workspaceName } = connection
  const hints = { key: orSet(platform, 'SVC_API_KEY'), workspace: orSet(platform, 'SVC_WORKSPACE') }

  /** The time begins anew with each piece of the answer. */
  async function open<T>(path: string, init: RequestInit, read: (answer: Response, alive: () => void) => Promise<T>) {
    const abort = new AbortController()
    const onStop = () => abort.abort(new Unavailable('the logger was ended'))
    const onTimeout = () => abort.abort(new Unavailable(`${url} has not answered for ${requestTimeoutMs} ms`))
    let timer = setTimeout(onTimeout, requestTimeoutMs)
    stop.addEventListener('abort', onStop)
    try {
      if (stop.aborted) onStop()
      const headers = { authorization: apiKey, ...platform.headers, ...init.headers }
      const answer = await fetch(url + path, {
        ...init,
        headers,
        redirect: 'manual',
        keepalive: isLast,
        signal: abort.signal,
      })
      return await read(answer, () => {
        clearTimeout(timer)
        timer = setTimeout(onTimeout, requestTimeoutMs)
      })
    } catch (error) {
      if (error instanceof Unavailable || error instanceof Refused) throw error
      const hint = platform.hintUnreachable(url)
      throw new Unavailable(`the service cannot be reached at ${url}: ${describe(error)}${hint}`)
    } finally {
      clearTimeout(timer)
      stop.removeEventListener('abort', onStop)
    }
  }

  const readWhole = async (answer: Response) => readAnswer(url, answer, await answer.text(), hints.key)

  /** @throws Unavailable, Refused */
  async function get<Path extends keyof paths>(path: Path, query = ''): Promise<Success<Get<Path>>> {
    return (await open(path + query, {}, readWhole)) as Success<Get<Path>>
  }

  return {
    get,

    /** The one that was given, or the account's default one once it was asked for. */
    get workspaceName() {
      return workspaceName
    },

    /** @throws Unavailable, Refused */
    async findWorkspace(): Promise<string> {
      workspaceName ??= (await get('/api/rest/v2/account-details')).defaultWorkspaceName ?? undefined
      if (workspaceName) return workspaceName
      throw new Refused(`the account has no default workspace: pass workspaceName${hints.workspace}`, 400, 0)
    },

    /**
     * @param text JSON
     * @throws Unavailable, Refused
     */
    async post(path: string, text: string, idempotencyKey?: string): Promise<unknown> {
      const gzip = text.length >= gzipBytesMin && !isLast ? platform.gzip : undefined
      const headers = {
        'content-type': 'application/json',
        ...(gzip && { 'content-encoding': 'gzip' }),
        ...(idempotencyKey !== undefined && { 'idempotency-key': idempotencyKey }),
      }
      const body = gzip ? new Uint8Array(await gzip(text)) : text
      return await open(path, { method: 'POST', headers, body }, readWhole)
    },

    /**
     * Sends a file and answers the text of the answer, however long it goes on.
     *
     * @throws Unavailable, Refused
     */
    async upload(
      path: string,
      query: Record<string, string>,
      file: { name: string; content: Blob },
      idempotencyKey: string,
      fields: Record<string, string> = {},
    ): Promise<string> {
      const body = new FormData()
      for (const [name, value] of Object.entries(fields)) body.append(name, value)
      body.append('file', file.content, file.name)
      const init = { method: 'POST', body, headers: { 'idempotency-key': idempotencyKey } }
      return await open(`${path}?${new URLSearchParams(query)}`, init, async (answer, alive) => {
        let text = ''
        const decoder = new TextDecoder()
        // Not every browser has chunks of an answer to iterate over.
        const reader = answer.body?.getReader()
        for (let read = await reader?.read(); read?.value; read = await reader?.read()) {
          text += decoder.decode(read.value, { stream: true })
          alive()
        }
        if (answer.status !== 200) readAnswer(url, answer, text, hints.key)
        return text
      })
    },
  }
}

/** @throws Unavailable, Refused */
function readAnswer(url: string, answer: Response, text: string, orKey: string): Record<string, unknown> {
  const body = toObject(text)
  // Browsers do not say which redirect it is.
  let status = answer.type === 'opaqueredirect' ? 302 : answer.status
  if (status === 200) {
    if (!body) throw new Unavailable(`${url} answers something that is not the service's: is the url right?`)
    if (body.code === undefined || body.code === 200) return body
    status = Number(body.code)
  }
  const message = typeof body?.msg === 'string' ? body.msg : `HTTP ${status}`
  const retryAfterMs = toMs(answer.headers.get('retry-after'))
  if (status === 429) throw new Unavailable(message, { retryAfterMs, isThrottled: true })
  // A proxy whose service is being replaced answers so, too: nothing is lost by waiting.
  if (status === 404 || status === 405 || (status >= 300 && status < 400)) {
    throw new Unavailable(`${url} answers ${status}: is it the address of the service? (${message})`)
  }
  if (status >= 500 || status === 408) {
    throw new Unavailable(`the service answers ${status}: ${message}`, { retryAfterMs, isFault: status === 500 })
  }
  const hint = status === 401 ? ` Pass the key as apiKey${orKey} (${url}).` : ''
  throw new Refused(message + hint, status, Number(body?.sdk_error_code ?? 0))
}

function toObject(text: string): Record<string, unknown> | undefined {
  try {
    const body = JSON.parse(text)
    return typeof body === 'object' && body !== null && !Array.isArray(body) ? body : undefined
  } catch {
    return undefined
  }
}

/** Seconds, or a date of HTTP. */
function toMs(retryAfter: string | null): number | undefined {
  if (!retryAfter) return undefined
  const ms = /^\d+$/.test(retryAfter) ? Number(retryAfter) * 1_000 : Date.parse(retryAfter) - Date.now()
  return Number.isNaN(ms) ? undefined : Math.min(Math.max(ms, 0), retryAfterMsMax)
}

function describe(error: unknown): string {
  const cause = error instanceof Error ? (error.cause ?? error) : error
  if (!(cause instanceof Error)) return String(cause)
  return cause.message || String((cause as Error & { code?: string }).code ?? cause.name)
}
