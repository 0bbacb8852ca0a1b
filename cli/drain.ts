import closeWithGrace from 'close-with-grace'
import type { Logger } from 'pino'

const signals = ['SIGTERM', 'SIGINT'] as const

/**
 * npm and service managers pass on a signal that the terminal or the system has sent to this process already: what
 * comes this soon is the same wish, not a second one.
 */
const sameWishMs = 1_000

/**
 * Runs `close` on SIGTERM, SIGINT and on an error nobody caught, and ends the process when it is done, or when
 * `drainMs` have passed. Whoever sends a signal again does not want to wait: the process ends at once.
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
      onTimeout: () => log.error(`draining took longer than ${drainMs / 1000} s (SVC_DRAIN_SECONDS) and was ended`),
    },
    async ({ signal, err }) => {
      if (err) log.fatal({ err }, 'an error was not caught')
      await close(first?.signal ?? signal).catch((error: unknown) => {
        log.error({ err: error }, 'draining failed')
        throw error
      })
    },
  )
  for (const signal of signals) {
    process.on(signal, () => {
      if (first && performance.now() - first.at > sameWishMs) process.exit(1)
      if (first) return
      first = { signal, at: performance.now() }
      grace.close()
    })
  }
}
