import { createProvider, type Provider } from '../api/single-sign-on/provider.ts'
import { createResolver, resolveLocally } from '../http/outgoing/addresses.ts'
import { Undeliverable } from '../http/outgoing/failure.ts'
import { createGuardedFetch } from '../http/outgoing/guarded-fetch.ts'
import { type Check, ok, wrong } from '../store/checks/finding.ts'
import type { Settings } from './settings.ts'

/** How long a provider may take to answer, and how long its answer may be. */
const answerMsMax = 10_000
const answerBytesMax = 4 * 1024 * 1024

/** The OpenID Connect providers of the settings, which reach them under the guard of `guarded-fetch.ts`. */
export function openProviders({
  singleSignOn,
  publicUrl,
  identityPrivateHosts,
  identityExtraCa,
}: Settings): Provider[] {
  if (publicUrl === undefined) return []
  const fetch = createGuardedFetch({
    privateHosts: identityPrivateHosts,
    extraCa: identityExtraCa,
    resolvePublic: createResolver({ timeoutMs: answerMsMax }),
    resolvePrivate: resolveLocally,
    answerMsMax,
    answerBytesMax,
  })
  return singleSignOn.providers.map((it) => createProvider(it, { fetch, publicUrl, now: Date.now }))
}

/** Checks that each provider describes itself. */
export function providerChecks(settings: Settings): Check[] {
  return openProviders(settings).map((provider) => {
    const name = `identity provider ${provider.id}`
    return {
      name,
      async run() {
        try {
          return [ok(name, await provider.check())]
        } catch (error) {
          return [wrong(name, explain(error))]
        }
      },
    }
  })
}

function explain(error: unknown): string {
  if (error instanceof Undeliverable) {
    const isPrivate = error.failure === 'address not public' || error.failure === 'url not allowed'
    return isPrivate ? `${error.failure}: list its host in SVC_SSO_PRIVATE_HOSTS, if it is yours` : error.failure
  }
  if (!(error instanceof Error)) return String(error)
  return error.cause instanceof Undeliverable ? explain(error.cause) : `does not describe itself: ${error.message}`
}
