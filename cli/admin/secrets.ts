import { openSecrets } from '../../store/postgres/accounts/secrets.ts'
import { openDatabase } from '../../store/postgres/database.ts'
import { checkPostgres } from '../../store/postgres/migrate.ts'
import { parsePostgresSettings } from '../settings.ts'
import { nameStoreError } from '../store-error.ts'

const usage = 'Usage: svc secrets rotate'

/**
 * Takes a new master key into use. Before it, every process must have been started with both: the new one as
 * SVC_MASTER_KEY, the old one as SVC_MASTER_KEY_PREVIOUS; they go on with the old one until this moment, and with the new
 * one after it. Afterwards the old one can be taken away.
 *
 * @throws Error with the usage for wrong arguments, or with the reason and what to do
 */
export async function secrets(words: string[], { json }: { json: boolean }): Promise<void> {
  if (words.length !== 1 || words[0] !== 'rotate') throw new Error(usage)
  const { postgresUrl, masterKey, previousMasterKey } = parsePostgresSettings(process.env)
  if (!masterKey || !previousMasterKey) {
    throw new Error('Set the new master key as SVC_MASTER_KEY and the old one as SVC_MASTER_KEY_PREVIOUS.')
  }
  const database = openDatabase({ url: postgresUrl, connectionsMax: 1, onError: () => undefined })
  try {
    await nameStoreError('Postgres', postgresUrl, checkPostgres(database))
    const count = await openSecrets({ database, masterKey, previousMasterKey }).rotate('svc secrets')
    const rotated = count !== undefined
    if (json) return print(JSON.stringify({ rotated, dataKeys: count ?? 0 }))
    print(
      rotated
        ? `The new master key is in use (data keys encrypted anew: ${count}). SVC_MASTER_KEY_PREVIOUS can be taken away.`
        : 'The new master key is in use already. SVC_MASTER_KEY_PREVIOUS can be taken away.',
    )
  } finally {
    await database.close()
  }
}

function print(line: string) {
  process.stdout.write(`${line}\n`)
}
