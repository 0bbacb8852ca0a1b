import { setTimeout as sleep } from 'node:timers/promises'
import type { EngineRun } from './engine.ts'
import type { Log } from './log.ts'

export type Supervised = { pid(): number; close(): Promise<void> }

const firstStarts = 3
const waitMsMin = 100
const waitMsMax = 10_000
const healthyAfterMs = 30_000

/**
 * Starts an engine, and restarts it with growing delays when it ends by itself. The first start is tried a few times (another
 * program may have taken the port, a killed predecessor may still be ending), then fails; restarts are tried until `close`.
 */
export async function supervise(deps: {
  name: string
  start(signal: AbortSignal, isFirst: boolean): Promise<EngineRun>
  log: Log
}): Promise<Supervised> {
  const { name, log } = deps
  const closing = new AbortController()
  const { signal } = closing
  let run = await startFirst()
  let runsSince = Date.now()

  async function startFirst(): Promise<EngineRun> {
    for (let attempt = 1; ; attempt++) {
      try {
        return await deps.start(signal, true)
      } catch (error) {
        if (attempt === firstStarts) throw error
        await sleep(attempt * 300)
      }
    }
  }

  async function keepRunning(): Promise<void> {
    let waitMs = waitMsMin
    for (;;) {
      const how = await run.ended
      if (signal.aborted) return
      if (Date.now() - runsSince > healthyAfterMs) waitMs = waitMsMin
      log.error({ store: name, pid: run.pid }, `embedded ${name} ${how}; restarting it`)
      for (;;) {
        await sleep(waitMs, undefined, { signal }).catch(() => {})
        if (signal.aborted) return
        waitMs = Math.min(waitMs * 2, waitMsMax)
        try {
          run = await deps.start(signal, false)
          break
        } catch (error) {
          if (signal.aborted) return
          log.error({ store: name, err: error }, `embedded ${name} could not be restarted`)
        }
      }
      runsSince = Date.now()
      log.info({ store: name, pid: run.pid }, `embedded ${name} is running again`)
      if (signal.aborted) return run.stop()
    }
  }

  const keeping = keepRunning()
  let closed: Promise<void> | undefined
  return {
    pid: () => run.pid,
    close: () => {
      closing.abort()
      closed ??= run.stop().then(() => keeping)
      return closed
    },
  }
}
