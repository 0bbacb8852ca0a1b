import { isMasterKeyInUse, type Secrets } from '../postgres/accounts/secrets.ts'
import type { Database } from '../postgres/database.ts'
import { type Check, type Finding, ok, wrong } from './finding.ts'

/** The number of secrets to decrypt. A wrong key fails on all of them, a changed row only on that one. */
const secretsTriedMax = 1_000
const name = 'master key'

/** Checks that the master key decrypts the secrets in Postgres. */
export function masterKeyCheck(database: Database, openSecrets: () => Secrets | undefined): Check {
  return { name, run: async () => [await check(database, openSecrets())] }
}

async function check(database: Database, secrets: Secrets | undefined): Promise<Finding> {
  if (!secrets) {
    if (!(await isMasterKeyInUse(database))) return ok(name, 'not set, and not needed yet')
    const needed = 'is not set, but Postgres has secrets encrypted with one: set SVC_MASTER_KEY, or no webhook is sent'
    return wrong(name, needed)
  }
  await secrets.check()
  const { tried, unreadable } = await secrets.tryAll(secretsTriedMax)
  const count = tried === 1 ? '1 secret' : `${tried} secrets`
  if (unreadable.length === 0) return ok(name, tried === 0 ? 'there are no secrets yet' : `decrypts ${count}`)
  const names = unreadable.slice(0, 3).join(', ')
  return wrong(
    name,
    `does not decrypt ${unreadable.length} of ${count} (${names}): their rows were changed or moved. Set them again.`,
  )
}
