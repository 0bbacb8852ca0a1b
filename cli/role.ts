import { drainOnSignal } from './drain.ts'
import { warnOfExampleSecrets } from './example-secrets.ts'
import { openLog } from './log.ts'
import { type Role, startService } from './service.ts'
import { parseRoleSettings } from './settings.ts'

/** Runs roles in this process, on stores given by address. Logs name the first role. */
export async function runRole(role: Role, ...others: Role[]): Promise<void> {
  const settings = parseRoleSettings(process.env)
  const log = openLog(settings.logLevel ?? 'info', role)
  if (role === 'api' && settings.objectsAreInDataFolder) {
    log.warn(
      { objectsUrl: settings.objectsUrl },
      'OBJECTS_URL is not set: assets are stored on this machine only, and no other api can read them',
    )
  }
  const service = await startService(new Set([role, ...others]), settings, settings, log)
  drainOnSignal({ drainMs: settings.shutdownDelayMs + settings.drainMs, log }, async (signal) => {
    log.info({ signal }, 'draining')
    await service.close()
    log.info('drained')
  })
  const warning = warnOfExampleSecrets(process.env)
  if (warning) log.warn(warning)
  log.info({ url: service.url }, 'ready')
}
