import type { Role } from '../../../cli/service.ts'
import type { StoreUrls } from '../../../cli/settings.ts'
import type { Closers } from '../../../runtime/closers.ts'
import { type RunningRole, startRole } from '../service.ts'

type Settings = { role: Role; stores: StoreUrls; settings: Record<string, string>; closers: Closers }

/**
 * A role that is started again, on the same port, whenever the test ends it. Once it is closed it is not started again,
 * also when a test fails in the middle of ending it.
 */
export async function superviseRole({ role, stores, settings, closers }: Settings) {
  let running: RunningRole = await startRole(role, stores, settings)
  const { port } = new URL(running.url)
  let starting: Promise<RunningRole> | undefined
  let isClosed = false
  closers.push(async () => {
    isClosed = true
    running = (await starting?.catch(() => undefined)) ?? running
    running.kill('SIGKILL')
    await running.ended
  })
  return {
    url: running.url,
    /** @returns what it ended with */
    async end(signal: NodeJS.Signals) {
      running.kill(signal)
      const how = await running.ended
      if (isClosed) throw new Error(`the test of ${role} is over`)
      starting = startRole(role, stores, { ...settings, SVC_PORT: port })
      running = await starting
      return how
    },
  }
}
