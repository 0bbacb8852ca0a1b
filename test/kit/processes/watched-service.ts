import type { Closers } from '../../../runtime/closers.ts'
import { startServer } from './server.ts'
import { svcScript } from './svc.ts'
import { readMemory } from './usage.ts'

/** The level of errors in the log (pino). */
const errorLevel = 50

export type WatchedService = Awaited<ReturnType<typeof startWatchedService>>

/** Runs `svc up` and watches it from outside: its end, its memory, the errors it logs. */
export async function startWatchedService(environment: Record<string, string>, closers: Closers) {
  const server = await startServer({ name: 'svc up', script: svcScript, args: ['up'], environment })
  closers.push(() => server.stop('SIGTERM'))
  return {
    ...server,
    /** Resident memory in bytes, now and at its peak; undefined where there is no /proc. */
    memory: () => readMemory(server.pid),
    /** The lines of the log at level error or above. */
    errors: () =>
      server
        .output()
        .split('\n')
        .filter((line) => levelOf(line) >= errorLevel),
  }
}

function levelOf(line: string): number {
  return Number(/^\{"level":(\d+)/.exec(line)?.[1] ?? 0)
}
