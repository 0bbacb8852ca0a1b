import closeWithGrace from 'close-with-grace'
import type { Logger } from 'pino'

const signals = ['SIGTERM', 'SIGINT', 'SIGHUP'] as const

/**
 * npm and service managers forward a signal that this process has already received, and a terminal that is closed may send
 * two. A signal this soon after the first is such a copy.
 */
const duplicateSignalMs = 1_000

/**
 * Runs `close` on SIGTERM, SIGINT, SIGHUP and uncaught errors, then ends the process; at the latest after `drainMs`. A second
 * signal ends the process at once.
 */
export function drainOnSignal(
  { drainMs, log }: { drainMs: number; log: Logger },
  close: (signal?: string) => Promise<void>,
) {
  let first: { signal: string; at: number } | undefined
  const grace = closeWithGrace(
    {
      delay: drainMs,
      logger: false,
      skip: [...signals],
      onTimeout: () => log.error(`draining was aborted after ${drainMs / 1000} s (SVC_DRAIN_SECONDS)`),
    },
    async ({ signal, err }) => {
      if (err) log.fatal({ err }, 'uncaught error')
      await close(first?.signal ?? signal).catch((error: unknown) => {
        log.error({ err: error }, 'draining failed')
        throw error
      })
    },
  )
  for (const signal of signals) {
    process.on(signal, () => {
      if (first && performance.now() - first.at > duplicateSignalMs) process.exit(1)
      if (first) return
      first = { signal, at: performance.now() }
      grace.close()
    })
  }
}
