import type { IncomingHttpHeaders } from 'node:http'
import type { Logger } from 'pino'
import type { Caller } from '../../http/route.ts'
import { readCookie, toCookie, toSessionCookie } from '../../http/session-cookie.ts'
import { refusalNames } from '../../http/sign-in/refusals.ts'
import type { CountSignIn } from '../../http/sign-in/sign-ins.ts'
import type { Secrets } from '../../store/postgres/accounts/secrets.ts'
import { findSessionIdentity, openSessionOfIdentity } from '../../store/postgres/accounts/sessions.ts'
import type { Database } from '../../store/postgres/database.ts'
import { forgetTokens, readTokens, storeTokens } from '../../store/postgres/identities/checks.ts'
import { admitIdentity } from '../../store/postgres/identities/identities.ts'
import { attemptSeconds, createAttempts, toAttemptName, toOwnPath } from './attempt.ts'
import { type SignInFault, toFault } from './faults.ts'
import type { Provider, Tokens } from './provider.ts'

type Settings = {
  database: Database
  secrets: Secrets
  masterKey: Buffer
  providers: Provider[]
  publicUrl: string
  sessionDays: number
  countSignIn: CountSignIn
  log: Logger
  now(): number
}

/** Where to send the browser, and with which cookies. */
type Redirect = { location: string; cookies: string[] }

const placeOfIdToken = (sessionId: string) => ['sessions', sessionId, 'id_token']

/** Signs people in at OpenID Connect providers: to the provider, back with its answer, and out again. */
export function createSingleSignOn(settings: Settings) {
  const { database, secrets, masterKey, providers, publicUrl, sessionDays, countSignIn, log, now } = settings
  const attempts = createAttempts(masterKey, now)
  const basePath = new URL(publicUrl).pathname.replace(/\/+$/, '')
  const maxAgeSeconds = sessionDays * 24 * 3_600
  const find = (id: string) => providers.find((it) => it.id === id)

  /** The page that tells the person why it did not work. */
  function toFaultPage(fault: SignInFault, provider: string): string {
    countSignIn('oidc', fault)
    return `${basePath}/-/sign-in?${new URLSearchParams({ reason: fault, provider })}`
  }

  const toAttemptCookie = (headers: IncomingHttpHeaders, state: string, value: string, maxAgeSeconds: number) =>
    // The provider's page leads back here: a strict cookie would not come along.
    toCookie({
      name: 'svc_sign_in',
      end: toAttemptName(state),
      value,
      maxAgeSeconds,
      headers,
      publicUrl,
      sameSite: 'Lax',
    })

  /** Logs what an admin has to mend; tells the person the rest. */
  function explain(error: unknown, provider: string): SignInFault {
    const fault = toFault(error)
    if (fault === undefined) throw error
    if (fault === 'provider-away' || fault === 'provider-wrong' || fault === 'clock') {
      log.warn({ err: error, provider }, 'a sign-in failed at the provider')
    }
    return fault
  }

  async function signIn(
    provider: Provider,
    search: string,
    attempt: { state: string; nonce: string; verifier: string },
  ) {
    const { claims, tokens, idToken } = await provider.signIn(search, attempt)
    const admitted = await admitIdentity(database, claims, provider.policy)
    if ('refusal' in admitted) {
      log.info({ provider: provider.id, refusal: admitted.refusal }, 'somebody was not admitted')
      return { fault: refusalNames[admitted.refusal] }
    }
    await storeTokens({ database, secrets }, admitted, {
      tokens: JSON.stringify(tokens),
      checkInMs: provider.refreshMs,
    })
    return { admitted, idToken }
  }

  return {
    providers: providers.map(({ id, name }) => ({ id, name, path: `-/oidc/${id}/start` })),

    /** Sends the browser to a provider; undefined when there is no such provider. */
    async begin(id: string, to: unknown, headers: IncomingHttpHeaders): Promise<Redirect | undefined> {
      const provider = find(id)
      if (!provider) return undefined
      const attempt = attempts.begin(id, toOwnPath(to))
      try {
        const location = await provider.toSignInUrl(attempt)
        const cookie = toAttemptCookie(headers, attempt.state, attempts.seal(attempt), attemptSeconds)
        return { location, cookies: [cookie] }
      } catch (error) {
        return { location: toFaultPage(explain(error, id), id), cookies: [] }
      }
    },

    /** Takes the answer of a provider; undefined when there is no such provider. @param search with its question mark */
    async finish(id: string, search: string, headers: IncomingHttpHeaders): Promise<Redirect | undefined> {
      const provider = find(id)
      if (!provider) return undefined
      const state = new URLSearchParams(search).get('state') ?? ''
      const name = { name: 'svc_sign_in', end: toAttemptName(state) }
      const attempt = attempts.open(readCookie(headers, name), id, state)
      if (!attempt) return { location: toFaultPage('expired', id), cookies: [] }
      const spent = toAttemptCookie(headers, state, '', 0)
      try {
        const signedIn = await signIn(provider, search, attempt)
        if ('fault' in signedIn) return { location: toFaultPage(signedIn.fault as SignInFault, id), cookies: [spent] }
        const { admitted, idToken } = signedIn
        const session = { userAgent: headers['user-agent'] ?? '', lastsDays: sessionDays }
        const opened = await openSessionOfIdentity(
          database,
          { ...admitted, provider: id },
          session,
          async (queries, sessionId) => {
            if (idToken === undefined) return null
            const text = { place: placeOfIdToken(sessionId), value: idToken }
            const [encrypted] = await secrets.encryptTexts(queries, admitted.organizationId, [text])
            return encrypted ?? null
          },
        )
        countSignIn('oidc', 'opened')
        return {
          location: basePath + attempt.to,
          cookies: [spent, toSessionCookie({ token: opened.token, maxAgeSeconds, headers, publicUrl })],
        }
      } catch (error) {
        return { location: toFaultPage(explain(error, id), id), cookies: [spent] }
      }
    },

    /**
     * Prepares the end of a session that a provider has opened.
     *
     * @returns where the person signs out at the provider; undefined when there is no such page
     */
    async leave({ organizationId, session }: Caller): Promise<string | undefined> {
      const identity = session && (await findSessionIdentity(database, session.id))
      const provider = identity && find(identity.provider)
      if (!provider) return undefined
      const place = placeOfIdToken(session.id)
      const [idToken] =
        identity.idToken === null
          ? []
          : await secrets.decryptTexts(organizationId, [{ place, value: identity.idToken }])
      const url = await provider.toSignOutUrl(idToken)
      const { tokens, isOnlyOne } = identity
      if (url === undefined || !isOnlyOne || tokens === null) return url
      const { isOffline } = JSON.parse(await readTokens(secrets, { ...identity, organizationId, tokens })) as Tokens
      // Signing out there ends what the provider is asked with; that is no reason to end keys.
      if (!isOffline) await forgetTokens(database, identity.identityId)
      return url
    },
  }
}

export type SingleSignOn = ReturnType<typeof createSingleSignOn>
