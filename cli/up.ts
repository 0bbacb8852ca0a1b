import { createClosers } from '../runtime/closers.ts'
import { ensureMasterKey } from '../store/embedded/master-key.ts'
import { drainOnSignal } from './drain.ts'
import { openLog } from './log.ts'
import { checkPort } from './port.ts'
import { startService } from './service.ts'
import { parseSettings } from './settings.ts'
import { migrateStores, openStores } from './stores.ts'
import { describeStarted } from './terminal/banner.ts'
import { createProgress } from './terminal/progress.ts'
import { describeTerminal } from './terminal/terminal.ts'
import { version } from './version.ts'

/** Runs the whole service in this process, and prints how to use it. */
export async function up(): Promise<void> {
  const startedAt = performance.now()
  const settings = parseSettings(process.env)
  const out = process.stdout
  const terminal = describeTerminal(out, process.env)
  const progress = createProgress(out, terminal)
  const log = openLog(settings.logLevel ?? 'warn', 'up')
  const closers = createClosers()
  let newKey: string | undefined
  out.write(`${terminal.paint('bold', `svc ${version}`)}\n`)
  try {
    await checkPort(settings)
    const stores = await openStores(settings, progress, closers, log)
    const migrated = await progress('Schema', () => migrateStores(stores, settings.bootstrapApiKey))
    newKey = migrated.newKey
    const masterKey = settings.masterKey ?? ensureMasterKey(settings.dataFolder)
    const service = await progress('Service', () =>
      startService(new Set(['ingest', 'worker', 'webhook-worker', 'api']), stores, { ...settings, masterKey }, log),
    )
    closers.push(() => service.close())
    drainOnSignal({ drainMs: settings.shutdownDelayMs + settings.drainMs, log }, async () => {
      out.write('\nStopping: finishing open work ...\n')
      await closers.closeAll()
      out.write('Stopped.\n')
    })
    const tookMs = performance.now() - startedAt
    out.write(describeStarted({ settings, url: service.url, newKey, tookMs }, terminal))
  } catch (error) {
    // Only its hash is stored, so the key cannot be shown later.
    if (newKey) out.write(`API key of the user admin, shown only once: ${newKey}\n`)
    await closers.closeAll().catch(() => undefined)
    throw error
  }
}
