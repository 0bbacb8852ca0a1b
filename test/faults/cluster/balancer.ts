import { Agent, createServer as createHttpServer, type IncomingMessage, request, type ServerResponse } from 'node:http'
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Closers } from '../../../runtime/closers.ts'

/**
 * The load balancers of Kubernetes, with the same behaviour: they probe `/readyz`; they drop a deleted pod some time
 * after its SIGTERM, and nobody waits for that; they send a request once, to one pod, and pass on the result.
 */

/** The pods of a Service, in the state that the balancers know. */
export type Endpoints = ReturnType<typeof createEndpoints>

const probeEveryMs = 200
const probeMsMax = 5_000

export function createEndpoints(closers: Closers) {
  const pods = new Map<string, { isReady: boolean }>()
  let turn = 0
  let isOver = false
  const probing = (async () => {
    while (!isOver) {
      const probe = async ([url, pod]: [string, { isReady: boolean }]) => {
        pod.isReady = await askReady(url)
      }
      await Promise.all([...pods].map(probe))
      await sleep(probeEveryMs)
    }
  })()
  closers.push(async () => {
    isOver = true
    await probing
  })
  return {
    add: (url: string) => void pods.set(url, { isReady: false }),
    remove: (url: string) => void pods.delete(url),
    isReady: (url: string) => pods.get(url)?.isReady === true,
    /** Round robin over the ready pods. */
    next(): URL | undefined {
      const ready = [...pods].filter(([, { isReady }]) => isReady)
      const found = ready[turn++ % Math.max(1, ready.length)]
      return found && new URL(found[0])
    },
  }
}

async function askReady(url: string): Promise<boolean> {
  try {
    const answer = await fetch(`${url}/readyz`, { signal: AbortSignal.timeout(probeMsMax) })
    await answer.arrayBuffer()
    return answer.ok
  } catch {
    return false
  }
}

/** Like kube-proxy: assigns each new connection to a ready pod, for as long as it lasts. */
export async function openService(endpoints: Endpoints, closers: Closers): Promise<string> {
  const sockets = new Set<Socket>()
  const server = createServer((client) => {
    const to = endpoints.next()
    if (!to) return void client.resetAndDestroy()
    const pod = connect(Number(to.port), to.hostname)
    for (const [from, other] of [
      [client, pod],
      [pod, client],
    ] as const) {
      sockets.add(from)
      from.setNoDelay(true)
      // Passes on a FIN as a FIN and a reset as a reset.
      from.pipe(other)
      from.on('error', () => other.resetAndDestroy())
      from.on('close', () => sockets.delete(from))
    }
  })
  return await listen(server, closers, () => {
    for (const socket of sockets) socket.destroy()
  })
}

const hopByHop = new Set([
  'connection',
  'keep-alive',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
])

/**
 * Like an Ingress controller: sends each request to a ready pod over keep-alive connections. It answers a failure with 502
 * and does not retry, because the pod may have stored the write.
 */
export async function openIngress(route: (path: string) => Endpoints, closers: Closers): Promise<string> {
  const agents = new Map<string, Agent>()
  const agentOf = ({ host }: URL) => {
    const found = agents.get(host) ?? new Agent({ keepAlive: true, keepAliveMsecs: 1_000 })
    agents.set(host, found)
    return found
  }
  function forward(incoming: IncomingMessage, answer: ServerResponse) {
    const path = (incoming.url ?? '/').replace(/\?.*$/s, '')
    const to = route(path).next()
    const fail = (status: number, said: string) => {
      if (answer.headersSent) return void answer.destroy()
      answer.writeHead(status, { 'content-type': 'application/json' })
      answer.end(JSON.stringify({ msg: `ingress: ${said} (${path})`, code: status }))
    }
    if (!to) return fail(503, 'no pod is ready')
    const { method, url, headers } = incoming
    const sent = request({
      agent: agentOf(to),
      hostname: to.hostname,
      port: to.port,
      method,
      path: url,
      headers: withoutHops(headers),
    })
    sent.on('error', (error) => fail(502, error.message))
    sent.on('response', (received) => {
      answer.writeHead(received.statusCode ?? 502, withoutHops(received.headers))
      received.pipe(answer)
      received.on('error', () => answer.destroy())
    })
    incoming.pipe(sent)
  }
  const server = createHttpServer({ keepAliveTimeout: 0, requestTimeout: 0 }, forward)
  return await listen(server, closers, () => {
    server.closeAllConnections()
    for (const agent of agents.values()) agent.destroy()
  })
}

function withoutHops(headers: IncomingMessage['headers']) {
  return Object.fromEntries(Object.entries(headers).filter(([name]) => !hopByHop.has(name)))
}

async function listen(server: Server, closers: Closers, breakAll: () => void): Promise<string> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  closers.push(async () => {
    const closed = new Promise((resolve) => server.close(resolve))
    breakAll()
    await closed
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}
