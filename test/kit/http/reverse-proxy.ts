import { once } from 'node:events'
import { createServer, type IncomingHttpHeaders, type IncomingMessage, request } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'

type Settings = {
  /** The address of the service behind it; known only when that has started. */
  toTarget(): string
  /** The path below which it serves the service, and which it removes. */
  prefix?: string
  port?: number
  /** The headers that it adds to a request, in place of those that came. */
  toHeaders?(headers: IncomingHttpHeaders): Record<string, string>
  /** How long a request stays with it before it is passed on. */
  toDelayMs?(request: IncomingMessage): number
}

/** A reverse proxy. It may sign people in, as oauth2-proxy does, by replacing their headers, and hold requests up. */
export async function openReverseProxy({
  toTarget,
  prefix = '',
  port = 0,
  toHeaders = () => ({}),
  toDelayMs = () => 0,
}: Settings) {
  const server = createServer(async (asked, answer) => {
    await sleep(toDelayMs(asked))
    const headers = Object.fromEntries(
      Object.entries(asked.headers).filter(([name]) => !name.startsWith('x-forwarded-')),
    )
    const path = asked.url ?? '/'
    if (!path.startsWith(`${prefix}/`)) return void answer.writeHead(404).end('another application')
    const passedOn = request(
      toTarget() + path.slice(prefix.length),
      { method: asked.method, headers: { ...headers, ...toHeaders(asked.headers) } },
      (response) => {
        answer.writeHead(response.statusCode ?? 502, response.headers)
        response.pipe(answer)
      },
    )
    passedOn.on('error', () => answer.destroy())
    answer.on('close', () => passedOn.destroy())
    asked.pipe(passedOn)
  })
  await once(server.listen(port, '127.0.0.1'), 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}${prefix}`,
    async close() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}
