import { randomUUID } from 'node:crypto'
import type { Logger } from 'pino'
import { Counter, type Registry } from 'prom-client'
import { repeat } from '../../runtime/poll.ts'
import type { ClickHouse } from '../../store/clickhouse/connection.ts'
import type { EventReader } from '../../store/clickhouse/monitoring/reader.ts'
import { evaluateWindows } from '../../store/monitoring/alert-evaluation.ts'
import type { Database } from '../../store/postgres/database.ts'
import {
  type AlertRule,
  claimAlertLease,
  insertEvaluation,
  listDueAlertRules,
  releaseAlertLease,
} from '../../store/postgres/monitoring/alerts.ts'

const lookEveryMs = 2_000
const rulesAtOnce = 1_000
/** After an outage, at most this many of the latest windows are evaluated. */
export const missedWindowsMax = 100
/** After an outage, and for a new rule that looks back: a read of some windows costs little more than of one. */
const windowsAtOnce = 10

type Evaluator = {
  database: Database
  clickhouse: ClickHouse
  eventReader: EventReader
  now(): number
  onFired(): void
  onError(error: unknown, rule: AlertRule): void
}

/**
 * Evaluates alert rules: each window once, after it has ended and its grace has passed. One worker does so at a time, because
 * a window may cost a read of all its events. Even two workers would fire a rule only once for a window: its evaluation is
 * stored in one transaction, and the second worker finds it done.
 */
export function createEvaluator({ database, clickhouse, eventReader, now, onFired, onError }: Evaluator) {
  const holder = randomUUID()

  async function evaluateRule(due: AlertRule, stop: AbortSignal) {
    const { windowMs, graceMs } = due
    const end = Math.floor((now() - graceMs) / windowMs) * windowMs
    const first = Math.max(due.evaluatedToMs, end - missedWindowsMax * windowMs)
    let rule = due
    for (let fromMs = first; fromMs < end; fromMs += windowMs * windowsAtOnce) {
      if (stop.aborted || !(await claimAlertLease(database, holder))) return
      const count = Math.min(windowsAtOnce, Math.ceil((end - fromMs) / windowMs))
      const windows = { from: fromMs, to: fromMs + count * windowMs, intervalMs: windowMs }
      const evaluated = await evaluateWindows({ queries: database, clickhouse, eventReader }, rule, windows)
      for (const [at, { found, problem }] of evaluated.entries()) {
        const window = { fromMs: fromMs + at * windowMs, toMs: fromMs + (at + 1) * windowMs }
        if (await insertEvaluation(database, rule, { ...window, found, problem, nowMs: now() })) onFired()
        rule = { ...rule, evaluatedToMs: window.toMs }
      }
    }
  }

  return {
    /** Evaluates all rules that are due, unless another worker does. A rule that fails is tried again in the next round. */
    async round(stop: AbortSignal): Promise<void> {
      if (!(await claimAlertLease(database, holder))) return
      for (const rule of await listDueAlertRules(database, now(), rulesAtOnce)) {
        if (stop.aborted) return
        await evaluateRule(rule, stop).catch((error: unknown) => onError(error, rule))
      }
    },

    /** Lets another worker take over at once. */
    end: () => releaseAlertLease(database, holder),
  }
}

type Settings = {
  database: Database
  clickhouse: ClickHouse
  eventReader: EventReader
  metricsRegistry: Registry
  log: Logger
}

/** Evaluates the alert rules of all workspaces while the worker runs. */
export function startAlerts({ database, clickhouse, eventReader, metricsRegistry, log }: Settings): {
  close(): Promise<void>
} {
  const fired = new Counter({
    name: 'svc_alerts_fired_total',
    help: 'Alert rules that fired',
    registers: [metricsRegistry],
  })
  const evaluator = createEvaluator({
    database,
    clickhouse,
    eventReader,
    now: Date.now,
    onFired: () => fired.inc(),
    onError: (error, { id }) =>
      log.warn({ err: error, alertId: id }, 'an alert rule could not be evaluated; the next round tries again'),
  })
  const stop = new AbortController()
  const looking = repeat({
    everyMs: lookEveryMs,
    work: () => evaluator.round(stop.signal),
    onError: (error) => log.warn({ err: error }, 'alert rules could not be evaluated; the next round tries again'),
  })
  return {
    async close() {
      stop.abort()
      await looking.close()
      await evaluator.end().catch(() => undefined)
    },
  }
}
