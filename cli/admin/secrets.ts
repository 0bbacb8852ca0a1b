import { openSecrets } from '../../store/postgres/accounts/secrets.ts'
import { parsePostgresSettings } from '../settings.ts'
import { withDatabase } from './with-database.ts'

const usage = 'Usage: svc secrets rotate'

/**
 * Changes the master key. Before, every process must run with the new key as SVC_MASTER_KEY and the old one as
 * SVC_MASTER_KEY_PREVIOUS; they use the old key until this command has run, then the new one. Afterwards the old one can be
 * removed.
 *
 * @throws Error with the usage for wrong arguments, or with the reason and what to do
 */
export async function secrets(words: string[], { json }: { json: boolean }): Promise<void> {
  if (words.length !== 1 || words[0] !== 'rotate') throw new Error(usage)
  const { postgresUrl, masterKey, previousMasterKey } = parsePostgresSettings(process.env)
  if (!masterKey || !previousMasterKey) {
    throw new Error('Set the new master key as SVC_MASTER_KEY and the old one as SVC_MASTER_KEY_PREVIOUS.')
  }
  await withDatabase(postgresUrl, async (database) => {
    const count = await openSecrets({ database, masterKey, previousMasterKey }).rotate('svc secrets')
    const rotated = count !== undefined
    if (json) return print(JSON.stringify({ rotated, dataKeys: count ?? 0 }))
    print(
      rotated
        ? `The new master key is in use (data keys re-encrypted: ${count}). You can remove SVC_MASTER_KEY_PREVIOUS.`
        : 'The new master key is already in use. You can remove SVC_MASTER_KEY_PREVIOUS.',
    )
  })
}

function print(line: string) {
  process.stdout.write(`${line}\n`)
}
