import type { Logger } from 'pino'
import { Counter, Gauge, type Registry } from 'prom-client'
import { createResolver, resolveLocally } from '../../http/outgoing/addresses.ts'
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

/** The receivers that a process serves at once; an unreachable one takes one slot for a few seconds now and then. */
const receiversAtOnce = 100
const lookEveryMs = 500
const receiversMax = 1_000

const connectMsMax = 5_000
const answerMsMax = 10_000
/** How long a stopping worker waits for attempts in progress; another worker repeats the aborted ones. */
const finishMsMax = 5_000

const sweepEveryMs = 10 * 60_000
const keptForMs = 30 * 24 * 3_600_000
const sweptAtOnce = 1_000

/**
 * Sends webhooks from the outbox. Each worker looks for receivers with due deliveries and requests a job for each. The queue
 * spreads the jobs over the workers, and the worker with the lease of a receiver sends. Deliveries of a killed worker are
 * still due and are sent again under the same id.
 */
export async function startWebhooks(settings: Settings): Promise<{ close(): Promise<void> }> {
  const { backend, database, secrets, privateHosts, extraCa, version, metricsRegistry, tracing, log } = settings
  const { everyMs = lookEveryMs, finishMs = finishMsMax } = settings
  const count = new Counter({
    name: 'svc_webhook_deliveries_total',
    help: 'Attempts to deliver a webhook, by outcome: delivered, retried later, or failed for good',
    labelNames: ['outcome'] as const,
    registers: [metricsRegistry],
  })
  new Gauge({
    name: 'svc_webhook_deliveries_pending',
    help: 'Webhook deliveries that wait to be sent, including those to disabled receivers',
    registers: [metricsRegistry],
    async collect() {
      // While Postgres is down the last count stays, so that the other metrics can still be read.
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
