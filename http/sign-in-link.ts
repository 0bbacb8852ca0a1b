import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'

type SignInWithLink = (token: string, headers: FastifyRequest['headers']) => Promise<string | undefined>

/**
 * Takes the link that the start prints: `/?token=...`. It answers with a redirect, so that the token leaves the address bar
 * and the history. The new address is relative: behind a proxy with a path prefix it stays below that path.
 */
export function addSignInLink(app: FastifyInstance, signInWithLink: SignInWithLink) {
  async function signIn(token: string, request: FastifyRequest, reply: FastifyReply) {
    const cookie = await signInWithLink(token, request.headers)
    if (cookie) reply.header('set-cookie', cookie)
    reply.header('cache-control', 'no-store')
    reply.redirect(cookie ? './' : './-/sign-in?reason=link-used', 303)
  }
  app.addHook('onRequest', (request, reply, done) => {
    if (request.method !== 'GET' || !request.url.startsWith('/?')) return done()
    const { token } = request.query as { token?: unknown }
    if (typeof token !== 'string') return done()
    signIn(token, request, reply).catch(done)
  })
}
