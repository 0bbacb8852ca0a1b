/** Calls of the HTTP interface. Errors of the service come as its envelope and become an `ApiError`. */

type Values = Record<string, string | number | boolean | null | undefined>
type Options = { signal?: AbortSignal }

/** The address of the service below which all paths lie; its path may be a prefix of a proxy. */
export const baseUrl = new URL('.', document.baseURI)

/**
 * True for a page in the frame of a notebook: every page also stands below `-/embed/`, without the bar. Any page may frame it,
 * and lead the reader's clicks, so it changes nothing.
 */
export const isEmbedded = location.pathname.startsWith(new URL('-/embed/', baseUrl).pathname)

const keptAliveCharactersMax = 20_000
const prefix = 'api/rest/v2'

export class ApiError extends Error {
  /** The HTTP status; 0 when the service did not answer at all. */
  readonly status: number
  /** What the service calls the error; undefined when a proxy answered. */
  readonly code: number | undefined
  constructor(status: number, message: string, code?: number) {
    super(message)
    this.name = 'ApiError'
    this.status = status
    this.code = code
  }
  get mayWorkLater(): boolean {
    return this.status === 0 || this.status === 429 || this.status >= 502
  }
}

/** The code of the share link that this page was opened with: it reads one project without signing in. */
export const shareCode = (): string | undefined => new URLSearchParams(location.search).get('shareCode') ?? undefined

/** The address of a read, for links, images and frames. */
export const toAddress = (path: string, query: Values) =>
  new URL(withQuery(`${prefix}${path}`, { shareCode: shareCode(), ...query }), baseUrl).href

/** Reads the bytes of an address. */
export async function readBytes(address: string, { signal, headers }: Options & { headers?: Record<string, string> }) {
  const answer = await fetch(address, { signal, headers: { 'x-svc-page': '1', ...headers } })
  if (answer.ok) return answer
  throw new ApiError(answer.status, toMessage(await answer.text(), answer))
}

/** Reads below `/api/rest/v2`. Values that are undefined or null are left out of the query. */
export function read<Answer>(path: string, query: Values = {}, options: Options = {}): Promise<Answer> {
  return call<Answer>('GET', withQuery(`${prefix}${path}`, { shareCode: shareCode(), ...query }), undefined, options)
}

/** Reads a path that is not below `/api/rest/v2`, such as `mpm/v2/models`. */
export function readAtRoot<Answer>(path: string, query: Values = {}, options: Options = {}): Promise<Answer> {
  return call<Answer>('GET', withQuery(path, query), undefined, options)
}

/** Posts JSON below `/api/rest/v2`: writes, and reads that take a body. */
export function post<Answer = unknown>(path: string, body: unknown, options: Options = {}): Promise<Answer> {
  return call<Answer>('POST', withQuery(`${prefix}${path}`, { shareCode: shareCode() }), body, options)
}

/** Calls a path below the address of the service itself, such as `session`. */
export async function call<Answer>(
  method: string,
  path: string,
  body?: unknown,
  { signal }: Options = {},
): Promise<Answer> {
  if (isEmbedded && mayChange(method, path)) {
    throw new ApiError(403, 'A page in a frame changes nothing: open it in a tab of its own.')
  }
  const json = body === undefined ? undefined : JSON.stringify(body)
  const response = await fetch(new URL(path, baseUrl), {
    method,
    signal,
    // Only a script of this page can set a header, so a link of another site cannot write.
    headers: {
      accept: 'application/json',
      'x-svc-page': '1',
      ...(body !== undefined && { 'content-type': 'application/json' }),
    },
    body: json,
    // A write goes on when its page is left. Browsers refuse requests beyond 64 KiB of all that they keep alive at a time.
    keepalive: mayChange(method, path) && json !== undefined && json.length < keptAliveCharactersMax,
  }).catch((error: unknown) => {
    if (signal?.aborted) throw error
    throw new ApiError(0, 'The service does not answer. Is it running, and the network up?')
  })
  const text = await response.text()
  if (!response.ok) throw new ApiError(response.status, toMessage(text, response), toCode(text))
  // Some writes answer a word in plain text.
  const isJson = response.headers.get('content-type')?.includes('json')
  return (text === '' ? undefined : isJson ? JSON.parse(text) : text) as Answer
}

/** Reads may be POSTs; what changes something is known by its path. */
function mayChange(method: string, path: string): boolean {
  if (/^api\/rest\/v2\/(write|admin|account|webhooks)\//.test(path)) return method !== 'GET' || path.includes('/write/')
  return method !== 'GET' && !path.startsWith(prefix)
}

function toMessage(text: string, response: Response): string {
  try {
    const { msg } = JSON.parse(text) as { msg?: unknown }
    if (typeof msg === 'string') return msg
  } catch {
    // A proxy in front of the service has answered with a page of its own.
  }
  return `The service answered ${response.status} ${response.statusText}.`
}

function toCode(text: string): number | undefined {
  try {
    return (JSON.parse(text) as { sdk_error_code?: number }).sdk_error_code
  } catch {
    return undefined
  }
}

function withQuery(path: string, query: Values): string {
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== null)
  const search = new URLSearchParams(given.map(([name, value]) => [name, String(value)]))
  return search.size === 0 ? path : `${path}?${search}`
}
