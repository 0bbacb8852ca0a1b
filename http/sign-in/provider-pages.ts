import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { HttpError } from '../errors.ts'

type Redirect = { location: string; cookies: string[] }

/** What signs people in at providers; see `api/single-sign-on/single-sign-on.ts`. Undefined for an unknown provider. */
export type ProviderSignIn = {
  begin(id: string, to: unknown, headers: FastifyRequest['headers']): Promise<Redirect | undefined>
  finish(id: string, search: string, headers: FastifyRequest['headers']): Promise<Redirect | undefined>
}

/**
 * The two addresses of signing in at an OpenID Connect provider. A browser goes there by itself, so each answers with a redirect,
 * also for what goes wrong. The second one changes something although it is a GET; what it needs is a cookie that only the
 * first one sets.
 */
export function addProviderPages(app: FastifyInstance, { begin, finish }: ProviderSignIn) {
  const send = (reply: FastifyReply, redirect: Redirect | undefined) => {
    if (!redirect) throw new HttpError('routeUnknown', 'There is no such provider: GET /session/providers lists them.')
    reply.header('cache-control', 'no-store').header('referrer-policy', 'no-referrer')
    if (redirect.cookies.length > 0) reply.header('set-cookie', redirect.cookies)
    return reply.redirect(redirect.location, 303)
  }
  const options = { schema: { hide: true }, exposeHeadRoute: false }
  app.get<{ Params: { id: string } }>('/-/oidc/:id/start', options, async ({ params, query, headers }, reply) =>
    send(reply, await begin(params.id, (query as { to?: unknown }).to, headers)),
  )
  app.get<{ Params: { id: string } }>('/-/oidc/:id/callback', options, async ({ params, raw, headers }, reply) => {
    const search = /\?.*$/.exec(raw.url ?? '')?.[0] ?? ''
    return send(reply, await finish(params.id, search, headers))
  })
}
