import { fileURLToPath } from 'node:url'
import { findFreePort } from '../../../store/embedded/free-port.ts'
import { checkAnswers, type RunningProcess, startProcess, waitUntilReady } from './process.ts'

export type Server = RunningProcess & { url: string }

type Settings = {
  name: string
  script: URL
  args?: string[]
  /** SVC_PORT is a free port unless it is given. */
  environment: Record<string, string>
  nodeOptions?: string[]
  readyWithinMs?: number
}

/** Runs a script that listens on SVC_PORT as a process of its own, and waits until `/readyz` answers. */
export async function startServer(settings: Settings): Promise<Server> {
  const { name, script, args = [], nodeOptions = [], readyWithinMs } = settings
  const port = settings.environment.SVC_PORT ?? String(await findFreePort())
  const running = startProcess({
    file: process.execPath,
    args: [...nodeOptions, fileURLToPath(script), ...args],
    environment: { ...settings.environment, SVC_PORT: port },
  })
  const url = `http://127.0.0.1:${port}`
  await waitUntilReady(name, running, () => checkAnswers(`${url}/readyz`), readyWithinMs)
  return { ...running, url }
}
