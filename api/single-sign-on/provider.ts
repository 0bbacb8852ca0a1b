import {
  allowInsecureRequests,
  authorizationCodeGrant,
  buildAuthorizationUrl,
  buildEndSessionUrl,
  type ClientAuth,
  ClientSecretBasic,
  ClientSecretPost,
  type Configuration,
  calculatePKCECodeChallenge,
  clockTolerance,
  customFetch,
  discovery,
  fetchUserInfo,
  type IDToken,
  None,
  refreshTokenGrant,
  type ServerMetadata,
  type TokenEndpointResponse,
  type UserInfoResponse,
} from 'openid-client'
import type { GuardedFetch } from '../../http/outgoing/guarded-fetch.ts'
import type { Claims, Policy } from '../../store/postgres/identities/identities.ts'

/** An OpenID Connect provider, as the settings describe it. */
export type ProviderSettings = {
  id: string
  /** On its button. */
  name: string
  issuer: string
  clientId: string
  /** Undefined for a public client. */
  clientSecret: string | undefined
  /** Undefined for what the provider offers of the usual ones. */
  scopes: string[] | undefined
  authorizationParameters: Record<string, string>
  userNameClaim: string
  groupsClaim: string
  /** How often the provider is asked whether somebody is still one of its users. */
  refreshMs: number
  policy: Policy
}

/** What a provider is asked with later. */
export type Tokens = {
  refreshToken: string | undefined
  accessToken: string
  accessUntilMs: number
  /** True when the refresh token outlives the person's session at the provider: then its end means that the person has left. */
  isOffline: boolean
}

export type SignedIn = { claims: Claims; tokens: Tokens; idToken: string | undefined }

/** What the browser keeps while the person signs in at the provider. */
export type Checks = { state: string; nonce: string; verifier: string }

const usualScopes = ['openid', 'profile', 'email', 'groups', 'offline_access']
const alwaysScopes = ['openid', 'profile', 'email']
/** The description of a provider, with its keys, is read again after this time. */
const describedForMs = 3_600_000
const clockToleranceSeconds = 60
const accessSecondsDefault = 300

type Deps = { fetch: GuardedFetch; publicUrl: string; now(): number }

/** Calls a provider. Errors are those of `openid-client` and of `guarded-fetch.ts`. */
export function createProvider(settings: ProviderSettings, { fetch, publicUrl, now }: Deps) {
  const { id, issuer, clientId, clientSecret, policy } = settings
  const redirectUri = `${publicUrl}/-/oidc/${id}/callback`
  let described: { configuration: Promise<Configuration>; atMs: number } | undefined

  /** Read when it is first needed: the service starts without the provider. */
  function describe(): Promise<Configuration> {
    if (described && now() - described.atMs < describedForMs) return described.configuration
    const reading = { configuration: read(), atMs: now() }
    described = reading
    reading.configuration.catch(() => {
      if (described === reading) described = undefined
    })
    return reading.configuration
  }

  async function read(): Promise<Configuration> {
    const auth: ClientAuth = (server, client, body, headers) =>
      toClientAuth(server, clientSecret)(server, client, body, headers)
    const options = {
      [customFetch]: fetch as never,
      // The fetch decides: plain HTTP only for hosts that a setting names.
      execute: [allowInsecureRequests],
    }
    return await discovery(new URL(issuer), clientId, { [clockTolerance]: clockToleranceSeconds }, auth, options)
  }

  function toScopes({ scopes_supported: supported }: Readonly<ServerMetadata>): string[] {
    if (settings.scopes) return settings.scopes
    return usualScopes.filter((it) => alwaysScopes.includes(it) || supported?.includes(it))
  }

  const usesGroups = policy.groupRoles.length > 0 || policy.allowedGroups.length > 0

  /** Reads the profile when the ID token does not say enough. */
  async function findProfile(
    configuration: Configuration,
    idToken: IDToken | undefined,
    accessToken: string,
    subject: string,
  ) {
    const wanted = [settings.userNameClaim, 'email', ...(usesGroups ? [settings.groupsClaim] : [])]
    const isEnough = idToken && wanted.every((it) => findClaim(idToken, it) !== undefined)
    if (isEnough || configuration.serverMetadata().userinfo_endpoint === undefined) return undefined
    return await fetchUserInfo(configuration, accessToken, subject)
  }

  function toClaims(subject: string, sources: (IDToken | UserInfoResponse | undefined)[]): Claims {
    const known = sources.filter((it) => it !== undefined)
    const find = (claim: string) => known.map((it) => findClaim(it, claim)).find((it) => it !== undefined)
    // An address and whether it is verified come from the same source.
    const mailed = known.find((it) => typeof it.email === 'string')
    const email = mailed?.email as string | undefined
    const userName = find(settings.userNameClaim)
    return {
      issuer,
      subject,
      userName: typeof userName === 'string' && userName !== '' ? userName : (email ?? subject),
      email,
      // Some providers say so in a text.
      isEmailVerified: ['true', true].includes(mailed?.email_verified as boolean | string),
      groups: toGroups(find(settings.groupsClaim)),
    }
  }

  function toTokens(answer: TokenEndpointResponse, before?: Tokens): Tokens {
    const granted = answer.scope?.split(' ') ?? settings.scopes ?? []
    return {
      refreshToken: answer.refresh_token ?? before?.refreshToken,
      accessToken: answer.access_token,
      accessUntilMs: now() + (answer.expires_in ?? accessSecondsDefault) * 1_000,
      isOffline:
        before?.isOffline ??
        (granted.includes('offline_access') || settings.authorizationParameters.access_type === 'offline'),
    }
  }

  return {
    id,
    name: settings.name,
    policy,
    refreshMs: settings.refreshMs,

    /** Reads how the provider describes itself, and answers in words what it offers. */
    async check(): Promise<string> {
      const metadata = (await describe()).serverMetadata()
      const scopes = toScopes(metadata)
      const leaving = metadata.end_session_endpoint === undefined ? 'no page to sign out' : 'a page to sign out'
      return `${metadata.issuer}, asked for ${scopes.join(' ')}; ${leaving}`
    },

    /** The address at the provider where the person signs in. */
    async toSignInUrl({ state, nonce, verifier }: Checks): Promise<string> {
      const configuration = await describe()
      return buildAuthorizationUrl(configuration, {
        ...settings.authorizationParameters,
        redirect_uri: redirectUri,
        scope: toScopes(configuration.serverMetadata()).join(' '),
        state,
        nonce,
        code_challenge: await calculatePKCECodeChallenge(verifier),
        code_challenge_method: 'S256',
      }).href
    },

    /** Takes what the provider has sent the browser back with. */
    async signIn(search: string, { state, nonce, verifier }: Checks): Promise<SignedIn> {
      const configuration = await describe()
      const answer = await authorizationCodeGrant(configuration, new URL(redirectUri + search), {
        pkceCodeVerifier: verifier,
        expectedState: state,
        expectedNonce: nonce,
        idTokenExpected: true,
      })
      const idToken = answer.claims() as IDToken
      const profile = await findProfile(configuration, idToken, answer.access_token, idToken.sub)
      return { claims: toClaims(idToken.sub, [idToken, profile]), tokens: toTokens(answer), idToken: answer.id_token }
    },

    /** Asks whether somebody is still a user; the claims are undefined when the provider says nothing about the person. */
    async refresh(subject: string, tokens: Tokens): Promise<{ claims: Claims | undefined; tokens: Tokens }> {
      const configuration = await describe()
      if (tokens.refreshToken === undefined) {
        const profile = await fetchUserInfo(configuration, tokens.accessToken, subject)
        return { claims: toClaims(subject, [profile]), tokens }
      }
      const answer = await refreshTokenGrant(configuration, tokens.refreshToken)
      const idToken = answer.claims()
      if (idToken && idToken.sub !== subject) throw new Error('the provider has answered for another person')
      const profile = await findProfile(configuration, idToken, answer.access_token, subject)
      const claims = idToken || profile ? toClaims(subject, [idToken, profile]) : undefined
      return { claims, tokens: toTokens(answer, tokens) }
    },

    /** Where the person signs out at the provider; undefined when the provider has no such page, or does not answer. */
    async toSignOutUrl(idToken: string | undefined): Promise<string | undefined> {
      const configuration = await describe().catch(() => undefined)
      if (configuration?.serverMetadata().end_session_endpoint === undefined) return undefined
      return buildEndSessionUrl(configuration, {
        post_logout_redirect_uri: `${publicUrl}/-/sign-in?reason=signed-out`,
        ...(idToken !== undefined && { id_token_hint: idToken }),
      }).href
    },
  }
}

export type Provider = ReturnType<typeof createProvider>

/** By the header, which every provider takes, unless it lists the form. */
function toClientAuth({ token_endpoint_auth_methods_supported: methods }: ServerMetadata, secret: string | undefined) {
  if (secret === undefined) return None()
  const isPostKnown = methods === undefined ? false : methods.includes('client_secret_post')
  return isPostKnown ? ClientSecretPost(secret) : ClientSecretBasic(secret)
}

/** A claim by its name, or by a path such as `realm_access.roles`. */
function findClaim(claims: Record<string, unknown>, name: string): unknown {
  if (claims[name] !== undefined) return claims[name]
  const value = name
    .split('.')
    .reduce<unknown>((it, part) => (it as Record<string, unknown> | undefined)?.[part], claims)
  return value ?? undefined
}

function toGroups(value: unknown): string[] {
  const list = Array.isArray(value) ? value : value === undefined ? [] : [value]
  return [...new Set(list.filter((it) => typeof it === 'string' && it !== ''))] as string[]
}
