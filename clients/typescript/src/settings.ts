import type { Log } from './error-log.ts'

/** What both loggers are given; what is left out comes from the environment. */
export type ConnectionOptions = {
  /** Where the service is: else `SVC_URL`, else http://127.0.0.1:8080. */
  url?: string
  /** Else `SVC_API_KEY`. */
  apiKey?: string
  /** Else `SVC_WORKSPACE`, else the account's default one. */
  workspaceName?: string
  /** What may wait in memory; what does not fit is dropped, counted and told. 64 MiB. */
  queueBytesMax?: number
  /** For one request. 300,000. */
  requestTimeoutMs?: number
  /** Sends what there is at SIGTERM, before the process ends by it. False, for servers that handle it themselves. */
  flushOnSigterm?: boolean
  /** Where lines for people go. `console`. */
  log?: Log
}

export type Connection = {
  url: string
  apiKey: string
  workspaceName: string | undefined
  queueBytesMax: number
  requestTimeoutMs: number
  flushOnSigterm: boolean
  log: Log
}

const defaultUrl = 'http://127.0.0.1:8080'

/** @throws Error that says what is missing or wrong, and what to do */
export function readConnection(options: ConnectionOptions): Connection {
  const { env } = process
  const apiKey = options.apiKey || env.SVC_API_KEY
  if (!apiKey) {
    throw new Error('apiKey: is missing: pass it, or set SVC_API_KEY (the service shows one when it is first started)')
  }
  const given = options.url || env.SVC_URL || defaultUrl
  const url = URL.canParse(given) ? new URL(given) : undefined
  if (url?.protocol !== 'http:' && url?.protocol !== 'https:') {
    throw new Error(`url: must be an address like ${defaultUrl}, not ${JSON.stringify(given)} (or SVC_URL)`)
  }
  return {
    url: given.replace(/\/+$/, ''),
    apiKey,
    workspaceName: options.workspaceName || env.SVC_WORKSPACE || undefined,
    queueBytesMax: readPositive('queueBytesMax', options.queueBytesMax, 64 * 1024 * 1024),
    requestTimeoutMs: readPositive('requestTimeoutMs', options.requestTimeoutMs, 300_000),
    flushOnSigterm: options.flushOnSigterm ?? false,
    log: options.log ?? console,
  }
}

/** @throws Error */
export function readPositive(name: string, given: number | undefined, otherwise: number): number {
  if (given === undefined) return otherwise
  if (typeof given === 'number' && given > 0 && Number.isFinite(given)) return given
  throw new Error(`${name}: must be a number above 0, not ${String(given)}`)
}
