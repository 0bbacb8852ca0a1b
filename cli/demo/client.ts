import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import type { z } from 'zod'
import { DemoError } from './errors.ts'

// One request at a time, as a trainer's client would send it. A write carries an Idempotency-Key that stays the
// same however often it is sent, so that a retry after a lost answer never stores a point twice. After a
// "busy" answer it waits as long as Retry-After says. If the service is unreachable, it retries a few times, then fails.

const REQUEST_MS_MAX = 30_000
const BUSY_MS_MAX = 90_000
const BUSY_STATUSES = new Set([429, 502, 503, 504])
const NETWORK_TRIES_MAX = 5
const FIRST_PAUSE_MS = 250

export interface Client {
  /** Reads `path` (below /api/rest/v2/, or from the root if it begins with a slash) and returns the checked body; rejects with DemoError. */
  get<Schema extends z.ZodType>(path: string, query: Query, schema: Schema): Promise<z.infer<Schema>>
  /** Writes `body` to `path` and returns the checked body; retries stay one write; rejects with DemoError. */
  post<Schema extends z.ZodType>(path: string, body: object, schema: Schema): Promise<z.infer<Schema>>
  /** Uploads a file as the body of `path`; what it is goes into the query. */
  upload<Schema extends z.ZodType>(path: string, query: Query, file: Upload, schema: Schema): Promise<z.infer<Schema>>
}

export type Query = Record<string, string | number>
type Upload = { bytes: Uint8Array<ArrayBuffer>; type: string }

export interface ClientDeps {
  /** The address of the service, such as http://localhost:8080. */
  url: string
  apiKey: string
  signal: AbortSignal
  /** Called with a short text whenever a request has to wait. */
  onWait: (reason: string) => void
}

/** A client of the service's HTTP interface; throws DemoError if the URL is invalid. */
export function createClient({ url, apiKey, signal, onWait }: ClientDeps): Client {
  if (!URL.canParse(url)) throw new DemoError(`"${url}" is not a URL. Use one such as --url http://localhost:8080`)
  const base = new URL('api/rest/v2/', url.endsWith('/') ? url : `${url}/`)

  async function send(target: URL, init: RequestInit, schema: z.ZodType): Promise<unknown> {
    const startedAt = performance.now()
    const what = `${init.method} ${target.pathname}`
    for (let failures = 0; ; ) {
      let answer: { status: number; retryAfter: string | null; body: unknown }
      try {
        const deadline = AbortSignal.any([signal, AbortSignal.timeout(REQUEST_MS_MAX)])
        const response = await fetch(target, { ...init, signal: deadline })
        const text = await response.text()
        answer = { status: response.status, retryAfter: response.headers.get('retry-after'), body: toJson(text) }
      } catch (cause) {
        signal.throwIfAborted()
        failures++
        if (failures >= NETWORK_TRIES_MAX) throw unreachable(url, cause)
        onWait(`no answer from ${url} (${reasonOf(cause)}), trying again`)
        await sleep(FIRST_PAUSE_MS * 2 ** (failures - 1), undefined, { signal })
        continue
      }

      if (BUSY_STATUSES.has(answer.status)) {
        const pauseMs = toPauseMs(answer.retryAfter)
        if (performance.now() - startedAt + pauseMs > BUSY_MS_MAX) {
          throw new DemoError(
            `${what}: still HTTP ${answer.status} after ${BUSY_MS_MAX / 1000} s (${messageOf(answer.body)})`,
          )
        }
        onWait(`the service is busy (HTTP ${answer.status}), waiting ${(pauseMs / 1000).toFixed(1)} s`)
        await sleep(pauseMs, undefined, { signal })
        continue
      }
      if (answer.status === 401) {
        throw new DemoError(`${url} does not know this API key (HTTP 401). Pass a valid one with --key <API key>`)
      }
      if (answer.status !== 200) throw new DemoError(`${what}: HTTP ${answer.status}: ${messageOf(answer.body)}`)
      const checked = schema.safeParse(answer.body)
      if (!checked.success) {
        const issue = checked.error.issues[0]
        throw new DemoError(`${what}: unexpected answer: ${issue?.path.join('.')}: ${issue?.message}`)
      }
      return checked.data
    }
  }

  return {
    get: async (path, query, schema) => {
      const target = new URL(path, base)
      for (const [name, value] of Object.entries(query)) target.searchParams.set(name, String(value))
      return (await send(target, { method: 'GET', headers: { authorization: apiKey } }, schema)) as z.infer<
        typeof schema
      >
    },
    post: async (path, body, schema) => {
      const headers = {
        authorization: apiKey,
        'content-type': 'application/json',
        'idempotency-key': randomUUID(),
      }
      const init = { method: 'POST', headers, body: JSON.stringify(body) }
      return (await send(new URL(path, base), init, schema)) as z.infer<typeof schema>
    },
    upload: async (path, query, { bytes, type }, schema) => {
      const target = new URL(path, base)
      for (const [name, value] of Object.entries(query)) target.searchParams.set(name, String(value))
      const headers = { authorization: apiKey, 'content-type': type }
      return (await send(target, { method: 'POST', headers, body: bytes }, schema)) as z.infer<typeof schema>
    },
  }
}

// Retry-After is a number of seconds or a date; without one, a second.
function toPauseMs(retryAfter: string | null): number {
  if (!retryAfter) return 1000
  const seconds = Number(retryAfter)
  const pauseMs = Number.isNaN(seconds) ? Date.parse(retryAfter) - Date.now() : seconds * 1000
  return Number.isNaN(pauseMs) ? 1000 : Math.max(100, pauseMs)
}

function toJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}

function messageOf(body: unknown): string {
  if (typeof body === 'object' && body !== null && 'msg' in body) return String(body.msg)
  return String(body).slice(0, 200)
}

function reasonOf(error: unknown): string {
  const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error
  if (typeof cause === 'object' && cause !== null && 'code' in cause && typeof cause.code === 'string')
    return cause.code
  return cause instanceof Error ? cause.message : String(cause)
}

function unreachable(url: string, cause: unknown): DemoError {
  return new DemoError(`cannot reach ${url} (${reasonOf(cause)}): is the service running? Start it with: npm start`, {
    cause,
  })
}
