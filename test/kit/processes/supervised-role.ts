import { fileURLToPath } from 'node:url'
import type { Role } from '../../../cli/service.ts'
import type { StoreUrls } from '../../../cli/settings.ts'
import type { Closers } from '../../../runtime/closers.ts'
import { findFreePort } from '../../../store/embedded/free-port.ts'
import { checkAnswers } from './process.ts'
import { type SupervisedProcess, supervise } from './supervised-process.ts'
import { svcScript, toStoreSettings } from './svc.ts'

export type SupervisedRole = SupervisedProcess<Role> & { url: string }

type Settings = {
  role: Role
  name?: string
  stores: StoreUrls
  settings: Record<string, string>
  closers: Closers
  /** The path of another version's `cli/svc.ts`. */
  script?: string | undefined
}

/** Starts a role that is started again whenever it ends, and waits until it is ready. */
export async function superviseRole(options: Settings): Promise<SupervisedRole> {
  const { role, name = role, stores, settings, closers, script = fileURLToPath(svcScript) } = options
  const port = String(await findFreePort())
  const url = `http://127.0.0.1:${port}`
  const supervised = supervise({
    kind: role,
    name,
    command: {
      file: process.execPath,
      args: [script, role],
      environment: { ...toStoreSettings(stores), ...settings, SVC_PORT: port },
    },
    checkReady: () => checkAnswers(`${url}/readyz`),
  })
  closers.push(supervised.close)
  await supervised.ready()
  return { ...supervised, url }
}
