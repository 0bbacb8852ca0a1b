import { generateKeyPairSync, type KeyObject, sign } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import Provider, { type Configuration, type KoaContextWithOIDC } from 'oidc-provider'

/** What the provider says of a person. */
export type Person = {
  email?: string
  email_verified?: boolean
  preferred_username?: string
  groups?: string[]
}

type Settings = {
  clientId: string
  clientSecret: string
  /** The address of the service. */
  publicUrl: string
  /** The id of the provider in the settings of the service. */
  id: string
  /** True when ID tokens have all claims, false when the profile has them. */
  hasClaimsInIdToken?: boolean
  /** How far the clock of the provider is behind, as its ID tokens look. */
  behindSeconds?: number
}

/**
 * An identity provider: `oidc-provider` with people of this test. Its pages are the least that a browser can use: a name to sign
 * in with, and buttons to agree or to cancel.
 */
export async function openIdentityProvider(settings: Settings) {
  const { clientId, clientSecret, publicUrl, id, hasClaimsInIdToken = false, behindSeconds = 0 } = settings
  const people = new Map<string, Person>()
  const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2_048 })
  const asked = { count: 0 }
  let answers = true
  const server = createServer()
  await once(server.listen(0, '127.0.0.1'), 'listening')
  // Another site than 127.0.0.1, where the service is.
  const issuer = `http://localhost:${(server.address() as AddressInfo).port}`
  const configuration: Configuration = {
    clients: [
      {
        client_id: clientId,
        client_secret: clientSecret,
        redirect_uris: [`${publicUrl}/-/oidc/${id}/callback`],
        post_logout_redirect_uris: [`${publicUrl}/-/sign-in?reason=signed-out`],
        grant_types: ['authorization_code', 'refresh_token'],
        response_types: ['code'],
      },
    ],
    scopes: ['openid', 'profile', 'email', 'groups', 'offline_access'],
    claims: {
      openid: ['sub'],
      profile: ['preferred_username'],
      email: ['email', 'email_verified'],
      groups: ['groups'],
    },
    conformIdTokenClaims: !hasClaimsInIdToken,
    cookies: { keys: ['a key of the test'] },
    jwks: { keys: [{ ...privateKey.export({ format: 'jwk' }), use: 'sig', alg: 'RS256' }] },
    pkce: { required: () => true },
    ttl: {
      AccessToken: 3_600,
      AuthorizationCode: 60,
      Grant: 86_400,
      IdToken: 3_600,
      Interaction: 3_600,
      RefreshToken: 86_400,
      Session: 86_400,
    },
    findAccount(_context: unknown, sub: string) {
      const person = people.get(sub)
      return person && { accountId: sub, claims: () => ({ sub, ...person }) }
    },
    interactions: { url: (_context: unknown, { uid }: { uid: string }) => `/interaction/${uid}` },
    features: {
      devInteractions: { enabled: false },
      rpInitiatedLogout: {
        enabled: true,
        logoutSource(context: KoaContextWithOIDC, form: string) {
          context.body = toPage(
            'Sign out',
            `${form}<button form="op.logoutForm" name="logout" value="yes">Sign out there</button>`,
          )
        },
      },
    },
  }
  // It warns of what only a provider in production needs.
  const warn = console.warn
  console.warn = () => undefined
  const provider = new Provider(issuer, configuration)
  console.warn = warn
  provider.use(async (context, next) => {
    await next()
    const answer = context.body as { id_token?: string } | undefined
    if (behindSeconds > 0 && answer?.id_token) answer.id_token = setBack(answer.id_token, behindSeconds, privateKey)
  })
  const toAnswer = provider.callback()

  async function interact(request: IncomingMessage, response: ServerResponse) {
    const { prompt, params, session, grantId } = await provider.interactionDetails(request, response)
    if (request.method !== 'POST') {
      const field = prompt.name === 'login' ? '<label>Name <input name="login" autofocus></label>' : ''
      const form = `<form method="post">${field}<button name="do" value="go">Continue</button>
        <button name="do" value="cancel">Cancel</button></form>`
      return void response.setHeader('content-type', 'text/html').end(toPage('Identity provider', form))
    }
    const given = new URLSearchParams(Buffer.concat(await request.toArray()).toString())
    if (given.get('do') === 'cancel') {
      const refused = { error: 'access_denied', error_description: 'the person did not agree' }
      return await provider.interactionFinished(request, response, refused, { mergeWithLastSubmission: false })
    }
    if (prompt.name === 'login') {
      const login = { accountId: given.get('login') ?? '' }
      return await provider.interactionFinished(request, response, { login })
    }
    const grant =
      (grantId && (await provider.Grant.find(grantId))) ||
      new provider.Grant({ accountId: session?.accountId as string, clientId: params.client_id as string })
    grant.addOIDCScope('openid profile email groups offline_access')
    const consent = { grantId: await grant.save() }
    await provider.interactionFinished(request, response, { consent }, { mergeWithLastSubmission: true })
  }

  server.on('request', (request: IncomingMessage, response: ServerResponse) => {
    asked.count++
    if (!answers) return void request.socket.destroy()
    if (!request.url?.startsWith('/interaction/')) return void toAnswer(request, response)
    interact(request, response).catch((error: unknown) => response.writeHead(500).end(String(error)))
  })
  return {
    issuer,
    people,
    /** How many requests there were. */
    asked,
    /** Lets the provider break connections instead of answering, or answer again. */
    setAnswers(value: boolean) {
      answers = value
    },
    async close() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

const toPage = (title: string, body: string) =>
  `<!doctype html><html lang="en"><head><title>${title}</title><link rel="icon" href="data:,"></head><body><h1>${title}</h1>${body}</body></html>`

/** The token as a provider whose clock is behind would have made it. */
function setBack(token: string, seconds: number, key: KeyObject): string {
  const [head, payload] = token.split('.') as [string, string]
  const claims = JSON.parse(Buffer.from(payload, 'base64url').toString()) as { iat: number; exp: number }
  const body = { ...claims, iat: claims.iat - seconds, exp: claims.iat - seconds + 60 }
  const text = `${head}.${Buffer.from(JSON.stringify(body)).toString('base64url')}`
  return `${text}.${sign('RSA-SHA256', Buffer.from(text), key).toString('base64url')}`
}
