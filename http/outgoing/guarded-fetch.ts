import { type RequestOptions, request as requestPlain } from 'node:http'
import { request as requestTls } from 'node:https'
import { isIP } from 'node:net'
import { findAddresses, type Resolve } from './addresses.ts'
import { lookUpIn, refuseNonPublic, trustAlso, untilStopped } from './checked-connection.ts'
import { toUndeliverable, Undeliverable } from './failure.ts'
import { isAllowedPrivate, type PrivateHosts, toHost } from './receiver-url.ts'

/**
 * A `fetch` for addresses that others choose: only HTTPS, only public addresses, except for hosts that a setting names. It resolves
 * a name once, checks the addresses and connects to one of these. It follows no redirects, uses no proxy, and reads answers up to
 * a limit.
 */
type Settings = {
  privateHosts: PrivateHosts
  /** A certificate authority besides Node's own, in PEM. */
  extraCa?: string | undefined
  resolvePublic: Resolve
  resolvePrivate: Resolve
  /** How long a call may take, with its answer. */
  answerMsMax: number
  answerBytesMax: number
}

type Call = {
  method?: string
  headers?: Record<string, string>
  body?: string | URLSearchParams | null | undefined
  signal?: AbortSignal | undefined
}

export function createGuardedFetch(settings: Settings) {
  const { privateHosts, extraCa, answerMsMax, answerBytesMax } = settings
  const trust = trustAlso(extraCa)

  /** @throws Undeliverable */
  return async function guardedFetch(text: string, { method = 'GET', headers, body, signal }: Call = {}) {
    const url = toAllowedUrl(text, privateHosts)
    const isAllowed = isAllowedPrivate(url, privateHosts)
    const deadline = AbortSignal.timeout(answerMsMax)
    const stop = signal ? AbortSignal.any([signal, deadline]) : deadline
    const toFailure = (error: unknown) =>
      deadline.aborted ? new Undeliverable('no answer in time', error) : toUndeliverable(error)
    const addresses = await untilStopped(findAddresses(url, privateHosts, settings), stop).catch((error: unknown) => {
      throw toFailure(error)
    })
    const host = toHost(url)
    const sent = body === undefined || body === null ? undefined : String(body)
    const isTls = url.protocol === 'https:'
    const options: RequestOptions = {
      method,
      host,
      port: url.port || (isTls ? 443 : 80),
      path: url.pathname + url.search,
      // No agent: the environment may have set a proxy for Node's.
      agent: false,
      headers: {
        ...headers,
        host: url.host,
        ...(sent !== undefined && { 'content-length': String(Buffer.byteLength(sent)) }),
      },
      lookup: lookUpIn(addresses),
      signal: stop,
    }
    const tls = { rejectUnauthorized: true, ...trust, ...(isIP(host) === 0 && { servername: host }) }
    return await new Promise<Response>((resolve, reject) => {
      const outgoing = isTls ? requestTls({ ...options, ...tls }) : requestPlain(options)
      const fail = (error?: unknown) => reject(toFailure(error))
      outgoing.on('error', fail)
      // Also for a close without an error, as after an answer that would switch protocols.
      outgoing.on('close', () => fail())
      outgoing.on('socket', (socket) => {
        if (!isAllowed) refuseNonPublic(socket)
      })
      outgoing.on('response', (response) => {
        const chunks: Buffer[] = []
        let bytes = 0
        response.on('data', (chunk: Buffer) => {
          bytes += chunk.length
          if (bytes > answerBytesMax) response.destroy(new Undeliverable('answer not understood', 'it is too long'))
          else chunks.push(chunk)
        })
        response.on('error', fail)
        response.on('end', () => {
          const { statusCode: status = 500 } = response
          const answered = new Headers()
          for (const [name, values] of Object.entries(response.headersDistinct)) {
            for (const value of values ?? []) answered.append(name, value)
          }
          const hasBody = status !== 204 && status !== 304
          resolve(new Response(hasBody ? Buffer.concat(chunks) : null, { status, headers: answered }))
        })
      })
      outgoing.end(sent)
    })
  }
}

export type GuardedFetch = ReturnType<typeof createGuardedFetch>

function toAllowedUrl(text: string, privateHosts: PrivateHosts): URL {
  const url = URL.parse(text)
  if (url === null || url.username !== '' || url.password !== '') throw new Undeliverable('url not allowed', text)
  const isAllowed = url.protocol === 'https:' || (url.protocol === 'http:' && isAllowedPrivate(url, privateHosts))
  if (!isAllowed) throw new Undeliverable('url not allowed', text)
  return url
}
