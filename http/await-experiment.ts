import type { IncomingHttpHeaders } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { HttpError } from './errors.ts'

/**
 * A page that closes cannot wait for one answer before it sends the next request: it creates an experiment and writes to it side
 * by side. With `Prefer: wait=<seconds>` (RFC 7240) a write waits for an experiment that is not there yet.
 */

const waitMsMax = 10_000
const pauseMs = 250

/** How long a request may wait for its experiment. */
export function readWaitMs({ prefer }: IncomingHttpHeaders): number {
  const seconds = typeof prefer === 'string' ? /\bwait=(\d{1,4})\b/.exec(prefer)?.[1] : undefined
  return Math.min(Number(seconds ?? 0) * 1_000, waitMsMax)
}

/** Handles a write again until its experiment exists. What fails because of that has done nothing yet. */
export async function awaitExperiment<T>(handle: () => Promise<T>, waitMs: number): Promise<T> {
  const deadline = performance.now() + waitMs
  for (;;) {
    try {
      return await handle()
    } catch (error) {
      const isUnknown = error instanceof HttpError && error.kind === 'experimentUnknown'
      if (!isUnknown || performance.now() + pauseMs > deadline) throw error
      await sleep(pauseMs)
    }
  }
}
