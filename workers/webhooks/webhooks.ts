import type { Logger } from 'pino'
import { Counter, Gauge, type Registry } from 'prom-client'
import type { PrivateHosts } from '../../http/outgoing/receiver-url.ts'
import { repeat } from '../../runtime/poll.ts'
import type { Tracing } from '../../runtime/tracing.ts'
import type { Secrets } from '../../store/postgres/accounts/secrets.ts'
import type { Database } from '../../store/postgres/database.ts'
import {
  countPendingDeliveries,
  deleteOldDeliveries,
  listDueReceivers,
} from '../../store/postgres/webhooks/deliveries.ts'
import type { QueueBackend } from '../../store/queue/queue.ts'
import { createResolver, resolveLocally } from './addresses.ts'
import { traceDeliveries } from './delivery-trace.ts'
import { createDispatcher } from './dispatcher.ts'
import { createSender } from './sender.ts'

type Settings = {
  backend: QueueBackend
  database: Database
  secrets: Secrets
  privateHosts: PrivateHosts
  extraCa: string | undefined
  version: string
  metricsRegistry: Registry
  tracing?: Tracing
  log: Logger
  everyMs?: number | undefined
  finishMs?: number | undefined
}

/** A process serves so many receivers at once; a dead one takes up one place for a few seconds now and then. */
const receiversAtOnce = 100
const lookEveryMs = 500
const receiversMax = 1_000

const connectMsMax = 5_000
const answerMsMax = 10_000
/** What is under way when the worker stops may take so long; it is sent again by another. */
const finishMsMax = 5_000

const sweepEveryMs = 10 * 60_000
const keptForMs = 30 * 24 * 3_600_000
const sweptAtOnce = 1_000

/**
 * Sends webhooks out of the outbox. Each worker looks for receivers that something is due for and requests an errand for
 * each; the queue spreads those over the workers, and whoever holds the round of a receiver sends. What a killed worker had
 * under way is still due: it is sent again under the same id.
 */
export async function startWebhooks(settings: Settings): Promise<{ close(): Promise<void> }> {
  const { backend, database, secrets, privateHosts, extraCa, version, metricsRegistry, tracing, log } = settings
  const { everyMs = lookEveryMs, finishMs = finishMsMax } = settings
  const count = new Counter({
    name: 'svc_webhook_deliveries_total',
    help: 'Attempts to deliver a webhook, by what came of them: delivered, retried later, or failed for good',
    labelNames: ['outcome'] as const,
    registers: [metricsRegistry],
  })
  new Gauge({
    name: 'svc_webhook_deliveries_pending',
    help: 'Deliveries of webhooks that wait to be sent, those to disabled receivers included',
    registers: [metricsRegistry],
    async collect() {
      // While Postgres is away the last count stays, so that all other metrics can be read.
      const count = await countPendingDeliveries(database).catch(() => undefined)
      if (count !== undefined) this.set(count)
    },
  })
  const send = createSender({
    privateHosts,
    extraCa,
    resolvePublic: createResolver({ timeoutMs: connectMsMax }),
    resolvePrivate: resolveLocally,
    connectMsMax,
    answerMsMax,
  })
  const dispatcher = createDispatcher({
    database,
    secrets,
    send: tracing ? traceDeliveries(tracing, send) : send,
    version,
    now: Date.now,
    random: Math.random,
    onAttempt: (outcome) => count.inc({ outcome }),
    onError: (error, what) => log.error({ err: error }, what),
  })
  const stop = new AbortController()
  const jobs = await backend.openNamedJobs({
    queue: 'webhooks',
    jobsAtOnce: receiversAtOnce,
    async run(receiverId) {
      await dispatcher.serve(receiverId, stop.signal).catch((error: unknown) => {
        log.warn({ err: error, receiverId }, 'webhooks could not be sent; the worker will try again')
      })
    },
    onError: (error) => log.warn({ err: error, queue: 'webhooks' }, 'the queue reported an error'),
  })
  const looking = repeat({
    everyMs,
    async work() {
      const due = await listDueReceivers(database, Date.now(), receiversMax)
      if (due.length > 0) await jobs.request(due)
    },
    onError: (error) =>
      log.warn({ err: error }, 'webhooks that are due could not be listed; the worker will try again'),
  })
  const sweeping = repeat({
    everyMs: sweepEveryMs,
    async work() {
      while ((await deleteOldDeliveries(database, Date.now() - keptForMs, sweptAtOnce)) === sweptAtOnce);
    },
    onError: (error) => log.warn({ err: error }, 'old deliveries of webhooks could not be deleted'),
  })
  return {
    async close() {
      const timer = setTimeout(() => stop.abort(), finishMs)
      await Promise.all([looking.close(), sweeping.close()])
      await jobs.close()
      clearTimeout(timer)
    },
  }
}
