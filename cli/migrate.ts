import { parseRoleSettings } from './settings.ts'
import { migrateStores } from './stores.ts'

/** Brings the given stores to this version, and prints the first key when it was made now. */
export async function migrate(): Promise<void> {
  const settings = parseRoleSettings(process.env)
  const { newKey } = await migrateStores(settings, settings.bootstrapApiKey, (text) =>
    process.stdout.write(`${text}\n`),
  )
  process.stdout.write('The stores are up to date.\n')
  if (newKey) process.stdout.write(`API key of the user admin, shown this once: ${newKey}\n`)
}
