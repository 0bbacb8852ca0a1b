import { once } from 'node:events'
import { createServer, type RequestListener, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Closers } from '../../runtime/closers.ts'
import type { Canary } from './target.ts'

async function listen(closers: Closers, listener: RequestListener): Promise<{ server: Server; port: number }> {
  const server = createServer(listener)
  await once(server.listen(0, '127.0.0.1'), 'listening')
  closers.push(async () => {
    server.closeAllConnections()
    server.close()
  })
  return { server, port: (server.address() as AddressInfo).port }
}

/** A server on this machine that nothing may call, as services inside a network are: each connection counts. */
export async function openCanary(closers: Closers): Promise<Canary> {
  const hits: string[] = []
  const { server, port } = await listen(closers, (request, response) => {
    hits.push(`${request.method} ${request.url} with host ${request.headers.host}`)
    response.end('{"secret":"of the network"}')
  })
  server.on('connection', () => hits.push('a connection'))
  return { port, hits: () => hits }
}

/**
 * An identity provider that was taken over: it describes itself, and its endpoints lead to the canary; another one redirects there.
 * The settings name also providers at the canary itself, by addresses of many spellings.
 */
export async function openProvider(canary: Canary, closers: Closers) {
  const { port } = await listen(closers, (request, response) => {
    const base = `http://127.0.0.1:${port}`
    const inside = `http://127.0.0.1:${canary.port}`
    if (request.url?.startsWith('/moved')) return void response.writeHead(302, { location: inside }).end()
    response.setHeader('content-type', 'application/json')
    response.end(
      JSON.stringify({
        issuer: base,
        authorization_endpoint: `${base}/authorize`,
        token_endpoint: `${inside}/token`,
        jwks_uri: `${inside}/jwks`,
        userinfo_endpoint: `${inside}/userinfo`,
        end_session_endpoint: `${inside}/end`,
        response_types_supported: ['code'],
        subject_types_supported: ['public'],
        id_token_signing_alg_values_supported: ['RS256'],
        code_challenge_methods_supported: ['S256'],
      }),
    )
  })
  const issuers = {
    taken: `http://127.0.0.1:${port}`,
    moved: `http://127.0.0.1:${port}/moved`,
    inside: `https://127.0.0.1:${canary.port}`,
    decimal: `https://2130706433:${canary.port}`,
    mapped: `https://[::ffff:127.0.0.1]:${canary.port}`,
    named: `https://localhost:${canary.port}`,
  }
  const providers = Object.entries(issuers).map(([id, issuer]) => ({ id, name: id, issuer, clientId: 'svc' }))
  return {
    ids: Object.keys(issuers),
    host: `127.0.0.1:${port}`,
    document: { providers, proxy: { secretEnv: 'PROXY_SECRET', createUsers: true } },
  }
}
