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
/** Measures of a metric of a run in a window: its maximum or minimum, its number of NaN, its number of points. */
const metricMeasures = ['metric', 'metricNaN', 'metricPoints'] as const
/** Measures of a run. `runCrashed` is 1 in the window in which a run crashed or was known to be lost. */
export const runMeasures = [...metricMeasures, 'runCrashed'] as const
export const alertMeasures = [...modelMeasures, ...runMeasures] as const
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
  /** The rule is on all runs of this project. */
  projectId: string | null
  /** Of the project, or of that of the experiment. */
  projectName: string | null
  userName: string
  createdAtMs: number
  isPaused: boolean
  evaluatedToMs: number
  problem: string | null
}

const columns = `r.id, r.workspace_id AS "workspaceId", w.name AS "workspaceName", r.name, r.model_name AS "modelName",
  r.experiment_id AS "experimentId", e.key AS "experimentKey", e.end_time_ms::float8 AS "experimentEndMs",
  r.project_id AS "projectId", p.name AS "projectName", r.measure, r.comparison, r.threshold, r.details,
  r.window_ms::float8 AS "windowMs", r.grace_ms::float8 AS "graceMs", r.user_name AS "userName",
  r.created_at_ms::float8 AS "createdAtMs", r.paused_at_ms IS NOT NULL AS "isPaused",
  r.evaluated_to_ms::float8 AS "evaluatedToMs", r.problem`
const rules = `SELECT ${columns} FROM alert_rules r JOIN workspaces w ON w.id = r.workspace_id
  LEFT JOIN experiments e ON e.id = r.experiment_id LEFT JOIN projects p ON p.id = coalesce(r.project_id, e.project_id)`

/** Per workspace. */
export const alertRulesMax = 1_000

type NewRule = Fields & {
  workspaceId: string
  modelName: string | null
  experimentId: bigint | null
  projectId: string | null
  userName: string
  nowMs: number
  /** Windows that begin earlier are not evaluated. */
  fromMs: number
}

/** @returns its id; undefined when the workspace has `alertRulesMax` rules already */
export async function insertAlertRule(queries: Queries, rule: NewRule): Promise<string | undefined> {
  const row = await queries.row<{ id: string }>(
    `INSERT INTO alert_rules (workspace_id, name, model_name, experiment_id, project_id, measure, comparison, threshold,
       details, window_ms, grace_ms, user_name, created_at_ms, evaluated_to_ms)
     SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14
     WHERE (SELECT count(*) FROM alert_rules WHERE workspace_id = $1) < $15 RETURNING id`,
    [
      ...[
        rule.workspaceId,
        rule.name,
        rule.modelName,
        rule.experimentId,
        rule.projectId,
        rule.measure,
        rule.comparison,
      ],
      ...[rule.threshold, rule.details, rule.windowMs, rule.graceMs, rule.userName, rule.nowMs],
      ...[Math.ceil(rule.fromMs / rule.windowMs) * rule.windowMs, alertRulesMax],
    ],
  )
  return row?.id
}

/** Which rules or firings are wanted: of all, of a model, of a project with its runs, or of a run with its project. */
export type AlertScope = {
  workspaceId: string
  modelName?: string | undefined
  projectId?: string | undefined
  experiment?: { id: bigint; key: string; projectId: string } | undefined
}

/** `$1` to `$5` are `scopeValues`. */
const isInScope = `r.workspace_id = $1 AND ($2::text IS NULL OR r.model_name = $2)
  AND ($3::text IS NULL OR coalesce(r.project_id, e.project_id) = $3)
  AND ($4::bigint IS NULL OR r.experiment_id = $4 OR r.project_id = $5)`
const scopeValues = ({ workspaceId, modelName, projectId, experiment }: AlertScope) => [
  ...[workspaceId, modelName ?? null, projectId ?? null, experiment?.id ?? null, experiment?.projectId ?? null],
]

/** The rules in a scope, ordered by name. */
export async function listAlertRules(queries: Queries, scope: AlertScope): Promise<AlertRule[]> {
  return await queries.rows<AlertRule>(`${rules} WHERE ${isInScope} ORDER BY r.name, r.id`, scopeValues(scope))
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
    `${rules} WHERE r.paused_at_ms IS NULL AND e.deleted_at IS NULL
       AND (r.project_id IS NULL OR p.workspace_id IS NOT NULL) AND r.evaluated_to_ms + r.window_ms + r.grace_ms <= $1
     ORDER BY r.evaluated_to_ms + r.window_ms + r.grace_ms, r.id LIMIT $2`,
    [nowMs, limit],
  )
}

/** A value that crossed the threshold, and its feature and part, or its run, if the measure has them. */
export type Found = {
  feature: string | null
  part: string | null
  value: number
  experimentKey?: string
  experimentName?: string
}

type Evaluated = { fromMs: number; toMs: number; found: Found[]; problem: string | null; nowMs: number }

/**
 * Stores the evaluation of a window and, if a threshold was crossed, the firing and its webhook deliveries, in one
 * transaction. Stores nothing if another evaluator was first, or if the rule was paused, changed or deleted meanwhile.
 *
 * @returns whether the rule fired
 */
export async function insertEvaluation(database: Database, rule: AlertRule, window: Evaluated): Promise<boolean> {
  const { fromMs, toMs, found: crossed, problem, nowMs } = window
  return await database.transaction(async (queries) => {
    const row = await queries.row<
      Pick<AlertRule, 'threshold' | 'comparison' | 'evaluatedToMs' | 'isPaused'> & { crossing: string[] }
    >(
      `SELECT threshold, comparison, evaluated_to_ms::float8 AS "evaluatedToMs", paused_at_ms IS NOT NULL AS "isPaused",
         crossing FROM alert_rules WHERE id = $1 FOR UPDATE`,
      [rule.id],
    )
    const { crossing: crossedBefore = [], ...now } = row ?? {}
    const { threshold, comparison, evaluatedToMs, isPaused } = rule
    if (!isDeepStrictEqual({ ...now }, { threshold, comparison, evaluatedToMs, isPaused })) return false
    const crossing = crossed.flatMap((it) => it.experimentKey ?? [])
    await queries.row('UPDATE alert_rules SET evaluated_to_ms = $2, problem = $3, crossing = $4 WHERE id = $1', [
      ...[rule.id, toMs, problem, crossing],
    ])
    const before = new Set(crossedBefore)
    const found = crossed.filter((it) => it.experimentKey === undefined || !before.has(it.experimentKey))
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
        projectName: rule.projectName,
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
        text: toAlertText(rule, found),
      },
    })
    return true
  })
}

/** The features or runs that one firing lists. */
const foundMax = 100
const toldMax = 3

/** What people read of a firing in their chat. */
function toAlertText(rule: AlertRule, found: Found[]): string {
  const { name, workspaceName, projectName, modelName, measure, comparison, threshold, details } = rule
  const place = [workspaceName, modelName ?? projectName].join('/')
  const of = details.metricName ?? details.feature
  const what = measure === 'runCrashed' ? 'crashed or fell silent' : `${comparison} ${threshold}`
  const told = found.slice(0, toldMax).map((it) => {
    const subject = it.experimentName || it.experimentKey || it.feature
    return measure === 'runCrashed' ? subject : [subject, it.value].filter((part) => part != null).join(' ')
  })
  const more = found.length > toldMax ? ` and ${found.length - toldMax} more` : ''
  return `${name} (${place}): ${measure === 'runCrashed' ? 'run' : measure}${of ? ` of ${of}` : ''} ${what}: ${told.join(', ')}${more}`
}

export type Firing = {
  id: bigint
  ruleId: string
  name: string
  modelName: string | null
  projectName: string | null
  experimentKey: string | null
  measure: AlertMeasure
  windowFromMs: number
  windowToMs: number
  firedAtMs: number
  found: Found[]
}

/** The firings in a scope, newest first. Those of a run are of its rules, and of rules of its project that found it. */
export async function listFirings(
  queries: Queries,
  {
    ruleId,
    beforeId,
    limit,
    ...scope
  }: AlertScope & {
    ruleId: string | undefined
    beforeId: bigint | undefined
    limit: number
  },
): Promise<Firing[]> {
  const { experiment } = scope
  return await queries.rows<Firing>(
    `SELECT f.id, f.rule_id AS "ruleId", r.name, r.model_name AS "modelName", p.name AS "projectName",
       e.key AS "experimentKey", r.measure, f.window_from_ms::float8 AS "windowFromMs",
       f.window_to_ms::float8 AS "windowToMs", f.fired_at_ms::float8 AS "firedAtMs", f.found
     FROM alert_firings f JOIN alert_rules r ON r.id = f.rule_id LEFT JOIN experiments e ON e.id = r.experiment_id
       LEFT JOIN projects p ON p.id = coalesce(r.project_id, e.project_id)
     WHERE ${isInScope} AND ($6::uuid IS NULL OR r.id = $6) AND ($7::bigint IS NULL OR f.id < $7)
       AND ($8::jsonb IS NULL OR r.project_id IS NULL OR f.found @> $8) ORDER BY f.id DESC LIMIT $9`,
    [
      ...[...scopeValues(scope), ruleId ?? null, beforeId ?? null],
      ...[experiment ? JSON.stringify([{ experimentKey: experiment.key }]) : null, limit],
    ],
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
