import closeWithGrace from 'close-with-grace'
import type { Logger } from 'pino'

/**
 * Runs `close` on SIGTERM, SIGINT and on an error nobody caught, and ends the process when it is done, or when
 * `drainMs` have passed. A second signal ends it at once.
 */
export function drainOnSignal(
  { drainMs, log }: { drainMs: number; log: Logger },
  close: (signal?: string) => Promise<void>,
) {
  closeWithGrace({ delay: drainMs, logger: false }, async ({ signal, err }) => {
    if (err) log.fatal({ err }, 'an error was not caught')
    await close(signal)
  })
}
