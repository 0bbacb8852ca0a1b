import { windowIndex } from '../expressions.ts'
import type { EventScope, Windows } from '../scope.ts'
import { SqlRefused } from './errors.ts'
import { listVoidedKinds, type ModelColumn, selectModel } from './model-table.ts'
import type { CheckedQuery, Sandbox, SqlTable } from './sandbox.ts'

/** SQL of callers on the table of a model, which they call MODEL. */

/** What callers may write besides the functions of ClickHouse. */
const functions = [
  '(it -> toUnixTimestamp64Milli(it)) AS TIMESTAMP_TO_MILLIS',
  "(it -> fromUnixTimestamp64Milli(toInt64(it), 'UTC')) AS MILLIS_TO_TIMESTAMP",
  '((prediction, label) -> avg(prediction = label)) AS ACCURACY',
]

/** Names are case-sensitive in ClickHouse, and callers write this one as they like. */
const names = ['MODEL', 'model', 'Model']

async function selectTable(sandbox: Sandbox, scope: EventScope, columns: ModelColumn[]): Promise<string> {
  const voided = await listVoidedKinds(sandbox, scope.modelId)
  return selectModel({ database: sandbox.database, scope, columns, voided })
}

/** Puts the table and the functions in front of a query. */
function withModel({ sql }: CheckedQuery, table: string): string {
  const [first, ...others] = names
  const ours = [...functions, `${first} AS (${table})`, ...others.map((it) => `${it} AS (SELECT * FROM ${first})`)]
  if (/^WITH RECURSIVE\b/.test(sql)) throw new SqlRefused('WITH RECURSIVE is not allowed')
  const isWith = /^WITH\s/.test(sql)
  return `WITH ${ours.join(',\n')}${isWith ? ',' : ''}\n${isWith ? sql.replace(/^WITH\s/, '') : sql}`
}

const whatIsExpected = 'must be SELECT <one aggregate> FROM MODEL [WHERE <condition>]'

/** A metric: one aggregate over the predictions of a model, with an optional condition. */
export type Metric = CheckedQuery

/** @throws SqlRefused with the reason */
export async function checkMetric(sandbox: Sandbox, text: string): Promise<Metric> {
  const query = await sandbox.checkQuery(text)
  // ClickHouse formats a query with each clause on a line of its own, and what is within one is indented.
  const clauses = query.sql.split('\n').filter((it) => !/^\s/.test(it) && it !== '')
  const isMetric =
    /^SELECT (?!DISTINCT\b)./.test(clauses[0] ?? '') &&
    /^FROM MODEL$/i.test(clauses[1] ?? '') &&
    (clauses.length === 2 || (clauses.length === 3 && /^WHERE /.test(clauses[2] ?? '')))
  if (!isMetric) throw new SqlRefused(whatIsExpected)
  return query
}

/** Whether a metric is the number of predictions, which is known without reading them. */
export const isCount = ({ sql }: Metric) => /^SELECT count\(\*?\)\nFROM MODEL$/i.test(sql)

type MetricQuery = {
  scope: EventScope
  /** The columns that the metric and the condition name, or all. */
  columns: ModelColumn[]
  windows: Windows
  /** A checked condition on the columns. */
  condition?: string | undefined
}

/**
 * Reads a metric in each window; null where it is not a number. Every window has a value, also one without predictions: that
 * of the aggregate over nothing, such as 0 of `count(*)`.
 */
export async function readMetric(
  sandbox: Sandbox,
  metric: Metric,
  { scope, columns, windows, condition }: MetricQuery,
  windowCount: number,
): Promise<(number | null)[]> {
  const table = await selectTable(sandbox, scope, columns)
  const where = condition === undefined ? 'true' : `(${condition})`
  const inWindows = `SELECT *, ${windowIndex(windows)} AS svc_window FROM (${table}) WHERE ${where}`
  const grouped = { ...metric, sql: `${metric.sql.replace(/^SELECT /, 'SELECT svc_window, ')}\nGROUP BY svc_window` }
  const { rows } = await sandbox.table(withModel(grouped, inWindows), [scope.modelId])
  const found = new Map(rows.map(([window, value]) => [Number(window), toNumber(value)]))
  if (found.size === windowCount) return Array.from({ length: windowCount }, (_, at) => found.get(at) ?? null)
  const nothing = await sandbox.table(withModel(metric, `SELECT * FROM (${table}) WHERE false`), [scope.modelId], {
    isNullForEmpty: true,
  })
  const ofNothing = toNumber(nothing.rows[0]?.[0] ?? null)
  return Array.from({ length: windowCount }, (_, at) => (found.has(at) ? (found.get(at) ?? null) : ofNothing))
}

function toNumber(value: unknown): number | null {
  if (value === null) return null
  const number = typeof value === 'string' && value.trim() === '' ? Number.NaN : Number(value)
  if (typeof value === 'object' || Number.isNaN(number))
    throw new SqlRefused(`${whatIsExpected}, and its value a number`)
  return number
}

/** Runs a query as it is, on all predictions of a model. `isTruncated` tells that the answer has more rows. */
export async function runQuery(
  sandbox: Sandbox,
  query: CheckedQuery,
  { scope, columns }: { scope: EventScope; columns: ModelColumn[] },
  rowsMax: number,
): Promise<SqlTable & { isTruncated: boolean }> {
  if (!/\bMODEL\b/i.test(query.sql)) throw new SqlRefused('must read FROM MODEL')
  const table = await selectTable(sandbox, scope, columns)
  const read = await sandbox.table(withModel(query, table), [scope.modelId], { rows: rowsMax + 1 })
  return { columns: read.columns, rows: read.rows.slice(0, rowsMax), isTruncated: read.rows.length > rowsMax }
}
