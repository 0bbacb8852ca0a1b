import type { Secrets } from '../../store/postgres/accounts/secrets.ts'
import { startWebhooks } from '../../workers/webhooks/webhooks.ts'
import { version } from '../version.ts'
import type { Parts } from './parts.ts'

/** Delivers webhooks. */
export async function openWebhookWorker(parts: Parts, secrets: Secrets): Promise<void> {
  const { settings, intervals, database, backend, metricsRegistry, tracing, closers, log, nameQueueError } = parts
  const { webhookPrivateHosts: privateHosts, webhookExtraCa: extraCa } = settings
  const webhooks = await nameQueueError(
    startWebhooks({
      backend,
      database,
      secrets,
      privateHosts,
      extraCa,
      version,
      metricsRegistry,
      tracing,
      log,
      everyMs: intervals.webhooksMs,
      finishMs: intervals.webhooksFinishMs,
    }),
  )
  closers.push(() => webhooks.close())
}
