import { isDeepStrictEqual } from 'node:util'
import type { Database, Queries } from '../database.ts'
import { insertAlertDeliveries } from '../webhooks/outbox.ts'

/** Measures of a monitored model. */
const modelMeasures = [
  'psi',
  'jensenShannon',
  'kolmogorovSmirnov',
  'wasserstein',
  'missingShare',
  'accuracy',
  'precision',
  'recall',
  'f1',
  'meanAbsoluteError',
  'rootMeanSquaredError',
  'bias',
  'unlabelledShare',
  'events',
] as const
/** Measures of a metric of an experiment in a window: its maximum or minimum, its number of NaN, its number of points. */
export const metricMeasures = ['metric', 'metricNaN', 'metricPoints'] as const
export const alertMeasures = [...modelMeasures, ...metricMeasures] as const
export type AlertMeasure = (typeof alertMeasures)[number]

export const comparisons = ['above', 'below'] as const

/** The further fields of some measures; a measure without a field leaves it undefined. */
type AlertDetails = {
  modelVersion?: string | undefined
  feature?: string | undefined
  part?: 'feature' | 'prediction' | 'label' | undefined
  datasetName?: string | undefined
  prediction?: string | undefined
  label?: string | undefined
  task?: 'classification' | 'regression' | undefined
  metricName?: string | undefined
  context?: string | undefined
}

type Fields = {
  name: string
  measure: AlertMeasure
  comparison: (typeof comparisons)[number]
  threshold: number
  details: AlertDetails
  windowMs: number
  graceMs: number
}

export type AlertRule = Fields & {
  id: string
  workspaceId: string
  workspaceName: string
  modelName: string | null
  experimentId: bigint | null
  experimentKey: string | null
  /** The reported end of the run. */
  experimentEndMs: number | null
  userName: string
  createdAtMs: number
  isPaused: boolean
  evaluatedToMs: number
  problem: string | null
}

const columns = `r.id, r.workspace_id AS "workspaceId", w.name AS "workspaceName", r.name, r.model_name AS "modelName",
  r.experiment_id AS "experimentId", e.key AS "experimentKey", e.end_time_ms::float8 AS "experimentEndMs", r.measure, r.comparison, r.threshold, r.details,
  r.window_ms::float8 AS "windowMs", r.grace_ms::float8 AS "graceMs", r.user_name AS "userName",
  r.created_at_ms::float8 AS "createdAtMs", r.paused_at_ms IS NOT NULL AS "isPaused",
  r.evaluated_to_ms::float8 AS "evaluatedToMs", r.problem`
const rules = `SELECT ${columns} FROM alert_rules r JOIN workspaces w ON w.id = r.workspace_id
  LEFT JOIN experiments e ON e.id = r.experiment_id`

/** Per workspace. */
export const alertRulesMax = 1_000

type NewRule = Fields & {
  workspaceId: string
  modelName: string | null
  experimentId: bigint | null
  userName: string
  nowMs: number
  /** Windows that begin earlier are not evaluated. */
  fromMs: number
}

/** @returns its id; undefined when the workspace has `alertRulesMax` rules already */
export async function insertAlertRule(queries: Queries, rule: NewRule): Promise<string | undefined> {
  const row = await queries.row<{ id: string }>(
    `INSERT INTO alert_rules (workspace_id, name, model_name, experiment_id, measure, comparison, threshold, details,
       window_ms, grace_ms, user_name, created_at_ms, evaluated_to_ms)
     SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13
     WHERE (SELECT count(*) FROM alert_rules WHERE workspace_id = $1) < $14 RETURNING id`,
    [
      ...[rule.workspaceId, rule.name, rule.modelName, rule.experimentId, rule.measure, rule.comparison],
      ...[rule.threshold, rule.details, rule.windowMs, rule.graceMs, rule.userName, rule.nowMs],
      ...[Math.ceil(rule.fromMs / rule.windowMs) * rule.windowMs, alertRulesMax],
    ],
  )
  return row?.id
}

/** The rules of a workspace, or of one model, ordered by name. */
export async function listAlertRules(
  queries: Queries,
  { workspaceId, modelName }: { workspaceId: string; modelName: string | undefined },
): Promise<AlertRule[]> {
  return await queries.rows<AlertRule>(
    `${rules} WHERE r.workspace_id = $1 AND ($2::text IS NULL OR r.model_name = $2) ORDER BY r.name, r.id`,
    [workspaceId, modelName ?? null],
  )
}

export async function findAlertRule(queries: Queries, workspaceId: string, id: string): Promise<AlertRule | undefined> {
  return await queries.row<AlertRule>(`${rules} WHERE r.workspace_id = $1 AND r.id = $2`, [workspaceId, id])
}

export type AlertChange = Partial<Pick<Fields, 'name' | 'threshold' | 'comparison' | 'graceMs'>> & {
  isPaused?: boolean | undefined
}

/** Changes a rule. A resumed rule continues with the current window; windows that ended while it was paused are skipped. */
export async function updateAlertRule(queries: Queries, id: string, change: AlertChange, nowMs: number): Promise<void> {
  await queries.row(
    `UPDATE alert_rules SET name = coalesce($2, name), threshold = coalesce($3::float8, threshold),
       comparison = coalesce($4, comparison), grace_ms = coalesce($5::bigint, grace_ms),
       paused_at_ms = CASE WHEN $6::boolean IS NULL THEN paused_at_ms WHEN $6 THEN coalesce(paused_at_ms, $7::bigint) END,
       evaluated_to_ms = CASE WHEN $6 = false AND paused_at_ms IS NOT NULL
         THEN greatest(evaluated_to_ms, $7::bigint / window_ms * window_ms) ELSE evaluated_to_ms END
     WHERE id = $1`,
    [
      ...[id, change.name ?? null, change.threshold ?? null, change.comparison ?? null, change.graceMs ?? null],
      ...[change.isPaused ?? null, nowMs],
    ],
  )
}

/** Deletes a rule and its firings. Deliveries that are in the outbox are still sent. */
export async function deleteAlertRule(queries: Queries, id: string): Promise<void> {
  await queries.row('DELETE FROM alert_rules WHERE id = $1', [id])
}

/** Rules whose window has ended and whose grace period is over, the longest waiting first. */
export async function listDueAlertRules(queries: Queries, nowMs: number, limit: number): Promise<AlertRule[]> {
  return await queries.rows<AlertRule>(
    `${rules} WHERE r.paused_at_ms IS NULL AND e.deleted_at IS NULL AND r.evaluated_to_ms + r.window_ms + r.grace_ms <= $1
     ORDER BY r.evaluated_to_ms + r.window_ms + r.grace_ms, r.id LIMIT $2`,
    [nowMs, limit],
  )
}

/** A value that crossed the threshold, and its feature and part if the measure has them. */
export type Found = { feature: string | null; part: string | null; value: number }

type Evaluated = { fromMs: number; toMs: number; found: Found[]; problem: string | null; nowMs: number }

/**
 * Stores the evaluation of a window and, if a threshold was crossed, the firing and its webhook deliveries, in one
 * transaction. Stores nothing if another evaluator was first, or if the rule was paused, changed or deleted meanwhile.
 *
 * @returns whether the rule fired
 */
export async function insertEvaluation(database: Database, rule: AlertRule, window: Evaluated): Promise<boolean> {
  const { fromMs, toMs, found, problem, nowMs } = window
  return await database.transaction(async (queries) => {
    const now = await queries.row<Pick<AlertRule, 'threshold' | 'comparison' | 'evaluatedToMs' | 'isPaused'>>(
      `SELECT threshold, comparison, evaluated_to_ms::float8 AS "evaluatedToMs", paused_at_ms IS NOT NULL AS "isPaused"
       FROM alert_rules WHERE id = $1 FOR UPDATE`,
      [rule.id],
    )
    const { threshold, comparison, evaluatedToMs, isPaused } = rule
    if (!isDeepStrictEqual({ ...now }, { threshold, comparison, evaluatedToMs, isPaused })) return false
    await queries.row('UPDATE alert_rules SET evaluated_to_ms = $2, problem = $3 WHERE id = $1', [
      rule.id,
      toMs,
      problem,
    ])
    if (found.length === 0) return false
    const fired = await queries.row(
      `INSERT INTO alert_firings (rule_id, window_from_ms, window_to_ms, fired_at_ms, found) VALUES ($1, $2, $3, $4, $5)
       ON CONFLICT (rule_id, window_from_ms) DO NOTHING RETURNING id`,
      [rule.id, fromMs, toMs, nowMs, JSON.stringify(found.slice(0, foundMax))],
    )
    if (!fired) return false
    await insertAlertDeliveries(queries, {
      workspaceId: rule.workspaceId,
      notification: {
        workspaceName: rule.workspaceName,
        event: 'ALERT_FIRED',
        alertId: rule.id,
        alertName: rule.name,
        modelName: rule.modelName,
        modelVersion: rule.details.modelVersion ?? null,
        experimentKey: rule.experimentKey,
        metricName: rule.details.metricName ?? null,
        measure: rule.measure,
        comparison: rule.comparison,
        threshold: rule.threshold,
        windowFrom: fromMs,
        windowTo: toMs,
        found: found.slice(0, foundMax),
        foundCount: found.length,
        timestamp: nowMs,
      },
    })
    return true
  })
}

/** The features that one firing lists. */
const foundMax = 100

export type Firing = {
  id: bigint
  ruleId: string
  name: string
  modelName: string | null
  experimentKey: string | null
  measure: AlertMeasure
  windowFromMs: number
  windowToMs: number
  firedAtMs: number
  found: Found[]
}

/** The firings of a workspace, newest first. */
export async function listFirings(
  queries: Queries,
  page: {
    workspaceId: string
    ruleId: string | undefined
    modelName: string | undefined
    beforeId: bigint | undefined
    limit: number
  },
): Promise<Firing[]> {
  return await queries.rows<Firing>(
    `SELECT f.id, f.rule_id AS "ruleId", r.name, r.model_name AS "modelName", e.key AS "experimentKey", r.measure,
       f.window_from_ms::float8 AS "windowFromMs", f.window_to_ms::float8 AS "windowToMs",
       f.fired_at_ms::float8 AS "firedAtMs", f.found
     FROM alert_firings f JOIN alert_rules r ON r.id = f.rule_id LEFT JOIN experiments e ON e.id = r.experiment_id
     WHERE r.workspace_id = $1 AND ($2::uuid IS NULL OR r.id = $2) AND ($3::text IS NULL OR r.model_name = $3)
       AND ($4::bigint IS NULL OR f.id < $4) ORDER BY f.id DESC LIMIT $5`,
    [page.workspaceId, page.ruleId ?? null, page.modelName ?? null, page.beforeId ?? null, page.limit],
  )
}

export type FiringNow = {
  alertId: string
  name: string
  measure: AlertMeasure
  windowFromMs: number
  windowToMs: number
}

/** How many rules models have, and those of them that fired for the last window they were evaluated for. */
export async function listFiringNow(
  queries: Queries,
  { workspaceId, modelNames }: { workspaceId: string; modelNames: string[] },
): Promise<{ modelName: string; rules: number; firing: FiringNow[] }[]> {
  return await queries.rows(
    `SELECT r.model_name AS "modelName", count(*)::int AS rules, coalesce(json_agg(json_build_object('alertId', r.id,
         'name', r.name, 'measure', r.measure, 'windowFromMs', f.window_from_ms, 'windowToMs', f.window_to_ms)
         ORDER BY r.name) FILTER (WHERE f.id IS NOT NULL), '[]') AS firing
     FROM alert_rules r
     LEFT JOIN alert_firings f ON f.rule_id = r.id AND f.window_to_ms = r.evaluated_to_ms AND r.paused_at_ms IS NULL
     WHERE r.workspace_id = $1 AND r.model_name = ANY($2) GROUP BY r.model_name`,
    [workspaceId, modelNames],
  )
}

const roundSeconds = 30

/** Takes or renews the lease on evaluating all alerts; false while another holder has it. Only the clock of Postgres counts. */
export async function claimAlertLease(queries: Queries, holder: string): Promise<boolean> {
  const row = await queries.row(
    `INSERT INTO alert_round AS r (holder, until) VALUES ($1, clock_timestamp() + make_interval(secs => $2))
     ON CONFLICT (is_only) DO UPDATE SET holder = excluded.holder, until = excluded.until
     WHERE r.holder = excluded.holder OR r.until < clock_timestamp() RETURNING holder`,
    [holder, roundSeconds],
  )
  return row !== undefined
}

/** Releases the lease, so that another worker can take it at once. */
export async function releaseAlertLease(queries: Queries, holder: string): Promise<void> {
  await queries.row('DELETE FROM alert_round WHERE holder = $1', [holder])
}
