import { Agent, type RequestOptions, request } from 'node:https'
import { isIP } from 'node:net'
import { type Address, findAddresses, type Resolve } from '../../http/outgoing/addresses.ts'
import { lookUpIn, refuseNonPublic, trustAlso, untilStopped } from '../../http/outgoing/checked-connection.ts'
import { toUndeliverable, Undeliverable } from '../../http/outgoing/failure.ts'
import { isAllowedPrivate, type PrivateHosts, parseReceiverUrl, toHost } from '../../http/outgoing/receiver-url.ts'

/**
 * Sends one request to an untrusted receiver: only HTTPS, only public addresses. It resolves the name once, checks
 * the addresses and connects to one of these, so a second DNS answer cannot lead elsewhere. It follows no redirects, uses no
 * proxy, and reads only the status and `Retry-After` of the answer.
 */
type Settings = {
  privateHosts: PrivateHosts
  /** A certificate authority besides Node's own, in PEM. */
  extraCa?: string | undefined
  resolvePublic: Resolve
  resolvePrivate: Resolve
  /** The time to connect, with DNS and the TLS handshake; and the time until the answer. */
  connectMsMax: number
  answerMsMax: number
}

type Message = { url: string; headers: Record<string, string>; body: string }

export type SendAnswer = { status: number; retryAfter: string | undefined }

/** How much of an answer is read, so that most connections end cleanly. */
const answerBytesMax = 4_096

export function createSender(settings: Settings) {
  const { privateHosts, extraCa, connectMsMax, answerMsMax } = settings
  // An agent of our own: the environment may have set a proxy for Node's.
  const agent = new Agent({ keepAlive: false, ...trustAlso(extraCa) })

  /** @throws Undeliverable; the reason of `signal` when that ended it */
  return async function send({ url: text, headers, body }: Message, signal?: AbortSignal): Promise<SendAnswer> {
    const parsed = parseReceiverUrl(text, privateHosts)
    if ('error' in parsed) throw new Undeliverable('url not allowed', parsed.error)
    const url = new URL(parsed.url)
    const deadline = new AbortController()
    const late = () => deadline.abort(new Undeliverable('no answer in time'))
    const answerTimer = setTimeout(late, answerMsMax)
    const connectTimer = setTimeout(late, connectMsMax)
    const stop = signal ? AbortSignal.any([signal, deadline.signal]) : deadline.signal
    try {
      const addresses = await untilStopped(findAddresses(url, privateHosts, settings), stop)
      return await post(url, addresses, {
        headers,
        body,
        agent,
        stop,
        isAllowed: isAllowedPrivate(url, privateHosts),
        onConnected: () => clearTimeout(connectTimer),
      })
    } finally {
      clearTimeout(answerTimer)
      clearTimeout(connectTimer)
    }
  }
}

export type Send = ReturnType<typeof createSender>

type Posting = {
  headers: Record<string, string>
  body: string
  agent: Agent
  stop: AbortSignal
  isAllowed: boolean
  onConnected(): void
}

function post(url: URL, addresses: Address[], posting: Posting): Promise<SendAnswer> {
  const { headers, body, agent, stop, isAllowed, onConnected } = posting
  const host = toHost(url)
  const options: RequestOptions = {
    method: 'POST',
    host,
    port: url.port || 443,
    path: url.pathname + url.search,
    // Overrides the environment. The certificate is checked against the name, not the address.
    rejectUnauthorized: true,
    ...(isIP(host) === 0 && { servername: host }),
    setDefaultHeaders: true,
    headers: { ...headers, host: url.host, 'content-length': String(Buffer.byteLength(body)) },
    agent,
    lookup: lookUpIn(addresses),
    signal: stop,
  }
  return new Promise((resolve, reject) => {
    const outgoing = request(options)
    let isAnswered = false
    const fail = (error?: unknown) => {
      // After the status has arrived, an error in the rest of the answer does not count.
      if (!isAnswered) reject(stop.aborted ? stop.reason : toUndeliverable(error))
    }
    outgoing.on('error', fail)
    // Also for a close without an error, as after an answer that would switch protocols.
    outgoing.on('close', () => fail())
    outgoing.on('socket', (socket) => {
      if (!isAllowed) refuseNonPublic(socket)
      socket.on('secureConnect', onConnected)
    })
    outgoing.on('response', (response) => {
      const { statusCode: status = 0 } = response
      isAnswered = true
      const retryAfter = response.headers['retry-after']
      let bytes = 0
      response.on('data', (chunk: Buffer) => {
        bytes += chunk.length
        if (bytes > answerBytesMax) response.destroy()
      })
      response.on('error', () => undefined)
      response.on('close', () => resolve({ status, retryAfter }))
    })
    outgoing.end(body)
  })
}
