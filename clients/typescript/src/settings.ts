import { type Environment, orSet } from './environment.ts'
import type { Log } from './error-log.ts'

/** What both loggers are given; in Node, what is left out comes from the environment. */
export type ConnectionOptions = {
  /** Where the service is. In Node else `SVC_URL`, else http://127.0.0.1:8080. */
  url?: string
  /** In Node else `SVC_API_KEY`. */
  apiKey?: string
  /** In Node else `SVC_WORKSPACE`; else the account's default one. */
  workspaceName?: string
  /** What may wait in memory; what does not fit is dropped, counted and told. 64 MiB. */
  queueBytesMax?: number
  /** For one request. 300,000. */
  requestTimeoutMs?: number
  /** Where lines for people go. `console`. */
  log?: Log
}

export type Connection = {
  url: string
  apiKey: string
  workspaceName: string | undefined
  queueBytesMax: number
  requestTimeoutMs: number
  log: Log
}

const exampleUrl = 'http://127.0.0.1:8080'

/** @throws Error that says what is missing or wrong, and what to do */
export function readConnection(options: ConnectionOptions, from: Environment): Connection {
  const { environment } = from
  const apiKey = options.apiKey || environment.SVC_API_KEY
  if (!apiKey) {
    const how = `pass it${orSet(from, 'SVC_API_KEY')}`
    throw new Error(`apiKey: is missing: ${how} (the service shows one when it is first started)`)
  }
  const given = options.url || environment.SVC_URL || from.defaultUrl
  if (given === undefined) throw new Error(`url: is missing: pass the address of the service, like ${exampleUrl}`)
  const url = URL.canParse(given) ? new URL(given) : undefined
  if (url?.protocol !== 'http:' && url?.protocol !== 'https:') {
    throw new Error(`url: must be an address like ${exampleUrl}, not ${JSON.stringify(given)}`)
  }
  return {
    url: given.replace(/\/+$/, ''),
    apiKey,
    workspaceName: options.workspaceName || environment.SVC_WORKSPACE || undefined,
    queueBytesMax: readPositive('queueBytesMax', options.queueBytesMax, 64 * 1024 * 1024),
    requestTimeoutMs: readPositive('requestTimeoutMs', options.requestTimeoutMs, 300_000),
    log: options.log ?? console,
  }
}

/** @throws Error */
export function readPositive(name: string, given: number | undefined, otherwise: number): number {
  if (given === undefined) return otherwise
  if (typeof given === 'number' && given > 0 && Number.isFinite(given)) return given
  throw new Error(`${name}: must be a number above 0, not ${String(given)}`)
}
