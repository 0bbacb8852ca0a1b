import { once } from 'node:events'
import { createServer, type IncomingHttpHeaders, request } from 'node:http'
import type { AddressInfo } from 'node:net'

type Settings = {
  /** The address of the service behind it; known only when that has started. */
  toTarget(): string
  /** The path below which it serves the service, and which it removes. */
  prefix?: string
  port?: number
  /** The headers that it adds to a request, in place of those that came. */
  toHeaders?(headers: IncomingHttpHeaders): Record<string, string>
}

/** A reverse proxy that signs people in, as oauth2-proxy does: it replaces the headers of people who are signed in with it. */
export async function openSigningProxy({ toTarget, prefix = '', port = 0, toHeaders = () => ({}) }: Settings) {
  const server = createServer((asked, answer) => {
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
