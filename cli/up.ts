import { createClosers } from '../runtime/closers.ts'
import { ensureMasterKey } from '../store/embedded/master-key.ts'
import { firstOrganization } from '../store/postgres/accounts/accounts.ts'
import { makeSignInLink } from './admin/sign-in-link.ts'
import { drainOnSignal } from './drain.ts'
import { openLog } from './log.ts'
import { checkPort } from './port.ts'
import { startService } from './service.ts'
import { parseSettings } from './settings.ts'
import { migrateStores, openStores } from './stores.ts'
import { describeStarted } from './terminal/banner.ts'
import { findBrowser, openInBrowser } from './terminal/browser.ts'
import { createSteps } from './terminal/steps.ts'
import { describeTerminal } from './terminal/terminal.ts'
import { version } from './version.ts'

/** Runs the whole service in this process, prints how to use it, and opens a browser where somebody would see it. */
export async function up({ opensBrowser }: { opensBrowser: boolean }): Promise<void> {
  const startedAt = performance.now()
  const settings = parseSettings(process.env)
  const out = process.stdout
  const terminal = describeTerminal(out, process.env)
  const progress = createSteps(out, terminal)
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
    const signInLink = await makeSignInLink({
      postgresUrl: stores.postgresUrl,
      url: settings.publicUrl ?? service.url,
      organization: firstOrganization,
      userName: undefined,
      actor: 'svc up',
    }).catch((error: unknown) => {
      // A start that has come so far goes on: `svc sign-in-link` makes another one.
      log.warn({ err: error }, 'no sign-in link was made')
      return undefined
    })
    const tookMs = performance.now() - startedAt
    out.write(describeStarted({ settings, url: service.url, newKey, signInLink, tookMs }, terminal))
    const { env, platform, stdin: input } = process
    const browser = opensBrowser && settings.opensBrowser && findBrowser({ input, out, env, platform })
    if (browser && signInLink) openInBrowser(browser, signInLink)
  } catch (error) {
    // Only its hash is stored, so the key cannot be shown later.
    if (newKey) out.write(`API key of the user admin, shown only once: ${newKey}\n`)
    await closers.closeAll().catch(() => undefined)
    throw error
  }
}
