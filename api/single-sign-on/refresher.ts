import type { Logger } from 'pino'
import { repeat } from '../../runtime/poll.ts'
import type { Secrets } from '../../store/postgres/accounts/secrets.ts'
import type { Database } from '../../store/postgres/database.ts'
import {
  askAgain,
  claimDueIdentities,
  confirmIdentity,
  type DueIdentity,
  endAsked,
  endAskedSessions,
  readTokens,
  storeTokens,
} from '../../store/postgres/identities/checks.ts'
import { admitIdentity } from '../../store/postgres/identities/identities.ts'
import { isOver, toFault } from './faults.ts'
import type { Provider, Tokens } from './provider.ts'

type Settings = {
  database: Database
  secrets: Secrets
  providers: Provider[]
  everyMs: number
  log: Logger
  onError(error: unknown): void
  now(): number
}

/** Longer than a provider may take to answer. Only a process that was killed leaves an identity to the end of its lease. */
const leaseMs = 60_000
const askedAtOnce = 8

/**
 * Asks providers, again and again, whether people are still theirs, and what their groups are. Whoever is not loses keys and
 * sessions. A provider that does not answer changes nothing: what it has not confirmed in time ends by itself (`endings.ts`).
 */
export function createRefresher({ database, secrets, providers, everyMs, log, onError, now }: Settings) {
  async function refreshAll() {
    const ids = providers.map((it) => it.id)
    for (;;) {
      const due = await claimDueIdentities(database, { providers: ids, limit: askedAtOnce, leaseMs })
      await Promise.all(due.map((it) => refresh(it).catch(onError)))
      if (due.length < askedAtOnce) return
    }
  }

  async function refresh(due: DueIdentity) {
    const provider = providers.find((it) => it.id === due.provider) as Provider
    const tokens = JSON.parse(await readTokens(secrets, due)) as Tokens
    // There is nothing more to ask with: the person signs in again when the session has ended.
    if (tokens.refreshToken === undefined && tokens.accessUntilMs < now()) return
    const answer = await provider.refresh(due.subject, tokens).catch((error: unknown) => ({ error }))
    if ('error' in answer) return await take(answer.error, due, tokens, provider.refreshMs)
    const stored = { tokens: JSON.stringify(answer.tokens), checkInMs: provider.refreshMs, replaced: due.tokens }
    await storeTokens({ database, secrets }, due, stored)
    if (answer.claims === undefined) return await confirmIdentity(database, due.identityId, provider.policy)
    const { issuer, subject } = answer.claims
    const refused = await admitIdentity(database, { ...answer.claims, issuer, subject }, provider.policy)
    // `admitIdentity` has ended it, unless an admin has removed the user, which ended it before.
    if ('refusal' in refused)
      log.info({ provider: due.provider, refusal: refused.refusal }, 'a person is no longer admitted')
  }

  async function take(error: unknown, due: DueIdentity, tokens: Tokens, refreshMs: number) {
    if (!isOver(error)) {
      await askAgain(database, due, refreshMs)
      if (toFault(error) === undefined) throw error
      log.warn({ err: error, provider: due.provider }, 'a provider did not say whether somebody is still its user')
    } else if (tokens.isOffline) await endAsked(database, due, 'ended there')
    else await endAskedSessions(database, due)
  }

  const refreshing = repeat({ everyMs, work: refreshAll, onError })
  return { close: refreshing.close }
}
