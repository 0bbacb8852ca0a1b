import { insertAudit } from '../../store/postgres/accounts/audit.ts'
import type { Database } from '../../store/postgres/database.ts'
import {
  admitIdentity,
  findIdentityAccount,
  type IdentityAccount,
  type Policy,
} from '../../store/postgres/identities/identities.ts'
import type { Caller } from '../route.ts'
import type { ProxyIdentity } from './proxy-check.ts'
import { describeRefusal, refusalNames } from './refusals.ts'
import type { CountSignIn } from './sign-ins.ts'

type Settings = { database: Database; policy: Policy; isEmailVerified: boolean; countSignIn: CountSignIn }

/** The issuer of people whom the reverse proxy signs in: there is one. */
const issuer = 'proxy'
/** How often it is noted that the proxy still sends a person. */
const confirmEveryMs = 60_000
/** Somebody who was away for longer signs in again, for the audit log. */
const awayMs = 12 * 3_600_000

/** Finds the account of a person whom a trusted proxy has signed in, and makes it if the settings say so. */
export function createProxySignIn({ database, policy, isEmailVerified, countSignIn }: Settings) {
  return async function findCaller(identity: ProxyIdentity): Promise<Caller | { refusal: string }> {
    const claims = { ...identity, issuer, isEmailVerified }
    const known = await findIdentityAccount(database, claims)
    if (known && isConfirmed(known, identity)) return known
    const admitted = await admitIdentity(database, claims, policy)
    if ('refusal' in admitted) {
      countSignIn('proxy', refusalNames[admitted.refusal])
      return { refusal: describeRefusal(admitted.refusal, identity.userName) }
    }
    if (!known || known.identity.confirmedMsAgo > awayMs) {
      await insertAudit(database, admitted, 'session.opened', admitted.userName, { provider: policy.provider })
      countSignIn('proxy', 'opened')
    }
    const account = await findIdentityAccount(database, claims)
    return account ?? { refusal: describeRefusal('removed', identity.userName) }
  }
}

function isConfirmed({ identity }: IdentityAccount, { email, groups }: ProxyIdentity): boolean {
  const isUnchanged = identity.email === (email ?? null) && JSON.stringify(identity.groups) === JSON.stringify(groups)
  return isUnchanged && identity.confirmedMsAgo < confirmEveryMs
}
