import { randomUUID } from 'node:crypto'
import type { Logger } from 'pino'
import { Counter, type Registry } from 'prom-client'
import { repeat } from '../../runtime/poll.ts'
import type { ClickHouse } from '../../store/clickhouse/connection.ts'
import type { Database } from '../../store/postgres/database.ts'
import {
  type AlertRule,
  endAlertRound,
  holdAlertRound,
  keepEvaluation,
  listDueAlertRules,
} from '../../store/postgres/monitoring/alerts.ts'
import { evaluateWindow } from './evaluate.ts'

const lookEveryMs = 2_000
const rulesAtOnce = 1_000
/** Of the windows that passed while no worker ran, so many are looked at: the last ones. */
export const missedWindowsMax = 100

type Evaluator = {
  database: Database
  clickhouse: ClickHouse
  now(): number
  onFired(): void
  onError(error: unknown, rule: AlertRule): void
}

/**
 * Looks at the windows of alert rules that have ended and had their grace, each once. One worker does so at a time, for a
 * window may cost as much as a read of its events; that a rule fires once for a window does not depend on it, though: what
 * is kept of a window is one transaction, which the second of two evaluators finds done.
 */
export function createEvaluator({ database, clickhouse, now, onFired, onError }: Evaluator) {
  const holder = randomUUID()

  async function evaluateRule(due: AlertRule, stop: AbortSignal) {
    const { windowMs, graceMs } = due
    const end = Math.floor((now() - graceMs) / windowMs) * windowMs
    const first = Math.max(due.evaluatedToMs, end - missedWindowsMax * windowMs)
    let rule = due
    for (let fromMs = first; fromMs < end; fromMs += windowMs) {
      if (stop.aborted || !(await holdAlertRound(database, holder))) return
      const window = { fromMs, toMs: fromMs + windowMs }
      const { found, problem } = await evaluateWindow({ queries: database, clickhouse }, rule, window)
      if (await keepEvaluation(database, rule, { ...window, found, problem, nowMs: now() })) onFired()
      rule = { ...rule, evaluatedToMs: window.toMs }
    }
  }

  return {
    /** One round over all that is due, unless another worker has it. A rule that fails is tried again in the next one. */
    async round(stop: AbortSignal): Promise<void> {
      if (!(await holdAlertRound(database, holder))) return
      for (const rule of await listDueAlertRules(database, now(), rulesAtOnce)) {
        if (stop.aborted) return
        await evaluateRule(rule, stop).catch((error: unknown) => onError(error, rule))
      }
    },

    /** Lets another worker have the round at once. */
    end: () => endAlertRound(database, holder),
  }
}

type Settings = { database: Database; clickhouse: ClickHouse; metricsRegistry: Registry; log: Logger }

/** Holds what models report, and metrics, to the rules of their workspaces, for as long as the worker runs. */
export function startAlerts({ database, clickhouse, metricsRegistry, log }: Settings): { close(): Promise<void> } {
  const fired = new Counter({
    name: 'svc_alerts_fired_total',
    help: 'Alert rules that fired',
    registers: [metricsRegistry],
  })
  const evaluator = createEvaluator({
    database,
    clickhouse,
    now: Date.now,
    onFired: () => fired.inc(),
    onError: (error, { id }) =>
      log.warn({ err: error, alertId: id }, 'an alert rule could not be evaluated; it will be tried again'),
  })
  const stop = new AbortController()
  const looking = repeat({
    everyMs: lookEveryMs,
    work: () => evaluator.round(stop.signal),
    onError: (error) => log.warn({ err: error }, 'alert rules could not be looked at; it will be tried again'),
  })
  return {
    async close() {
      stop.abort()
      await looking.close()
      await evaluator.end().catch(() => undefined)
    },
  }
}
