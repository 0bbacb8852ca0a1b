import type { ClickHouse } from '../connection.ts'
import { doubleText } from './double-text.ts'
import { seriesName } from './series-counts.ts'
import { byMetricTable, byMetricValues } from './summaries/by-metric.ts'
import { toPossibleMetrics } from './summaries/values.ts'

/** The experiments that are looked at: some, or all whose ids are in a range. */
export type Among = { ids: bigint[] } | { low: bigint; high: bigint }

/** A part of the summary of a metric, which is given by its summary name. */
export type MetricPart = { name: string; of: keyof typeof byMetricValues }

export type MetricTest = { comparison: '=' | '<' | '<=' | '>' | '>='; number: number }

/** Ids are sent in the URL of the query, which may be one megabyte long. */
export const idsAtOnceMax = 10_000

/** Of a name with hundreds of underscores, the ends would be longer than a URL. */
const possibleMax = 50

/**
 * The experiments whose metric passes one of the tests; negated: none of them. Without tests: those that have the metric. As
 * Postgres writes a list of ids: `{1,2}`, ascending, which Postgres finds faster. Its length is that of the answer, not of the
 * points.
 */
export async function findByMetric(
  clickhouse: ClickHouse,
  among: Among,
  metric: MetricPart,
  { tests, isNegated }: { tests: MetricTest[] | 'any'; isNegated: boolean },
): Promise<string> {
  const { from, params } = selectValues(clickhouse, among, metric)
  // A number is never equal to NaN, and not compared with it otherwise.
  const conditions = (tests === 'any' ? [] : tests).map(({ comparison, number }, at) =>
    Number.isNaN(number)
      ? comparison.includes('=')
        ? 'isNaN(value)'
        : 'false'
      : `value ${comparison} {n${at}:Float64}`,
  )
  const passes = tests === 'any' ? 'true' : `(${['false', ...conditions].join(' OR ')})`
  const numbers = (tests === 'any' ? [] : tests).map((it, at) => [`n${at}`, it.number])
  const [found] = await clickhouse.rows<{ ids: string }>(
    `SELECT concat('{', arrayStringConcat(arraySort(groupArray(id)), ','), '}') AS ids FROM (${from}) WHERE ${isNegated ? 'NOT ' : ''}${passes}`,
    { ...params, ...Object.fromEntries(numbers) },
  )
  return found?.ids ?? '{}'
}

/** What a metric is in the experiments that have it: their ids and their values, as Postgres writes lists. */
export async function readMetric(clickhouse: ClickHouse, among: Among, metric: MetricPart) {
  const { from, params } = selectValues(clickhouse, among, metric)
  const list = (it: string) => `concat('{', arrayStringConcat(groupArray(${it}), ','), '}')`
  const [found] = await clickhouse.rows<{ ids: string; values: string }>(
    `SELECT ${list('id')} AS ids, ${list('value')} AS values FROM (${from})`,
    params,
  )
  return found ?? { ids: '{}', values: '{}' }
}

/** The beginning of an order of a metric: numbers before NaN upwards, after it downwards. */
export type FirstOf = {
  direction: 'asc' | 'desc'
  /** Begins at this number, if there is one. */
  from: number | undefined
  limit: number
}

/**
 * As `readMetric`, but only what comes first in an order, with all that is equal to the last of them. `isWhole` says that these
 * are all values there are.
 */
export async function readFirst(
  clickhouse: ClickHouse,
  among: Among,
  metric: MetricPart,
  { direction, from: begin, limit }: FirstOf,
): Promise<{ ids: string; values: string; isWhole: boolean }> {
  const { from, params } = selectValues(clickhouse, among, metric)
  const list = (it: string) => `concat('{', arrayStringConcat(groupArray(${it}), ','), '}')`
  const isBehind =
    direction === 'asc'
      ? '(value >= {begin:Float64} OR isNaN(value))'
      : '(value <= {begin:Float64} AND NOT isNaN(value))'
  const [found] = await clickhouse.rows<{ ids: string; values: string; rows: string }>(
    `SELECT ${list('id')} AS ids, ${list('value')} AS values, count() AS rows FROM (
       SELECT id, value FROM (${from}) ${begin === undefined ? '' : `WHERE ${isBehind}`}
       ORDER BY isNaN(value) ${direction}, value ${direction} LIMIT {limit:UInt64} WITH TIES)`,
    { ...params, limit, ...(begin !== undefined && { begin }) },
  )
  const { ids = '{}', values = '{}', rows = '0' } = found ?? {}
  return { ids, values, isWhole: begin === undefined && Number(rows) < limit }
}

function selectValues(clickhouse: ClickHouse, among: Among, { name, of }: MetricPart) {
  const isAmong =
    'ids' in among ? 'experiment_id IN {ids:Array(UInt64)}' : 'experiment_id BETWEEN {low:UInt64} AND {high:UInt64}'
  const metrics = toPossibleMetrics(name)
  const isPossible =
    metrics.length <= possibleMax ? 'metric IN {metrics:Array(String)}' : 'endsWith({name:String}, metric)'
  return {
    from: `SELECT experiment_id AS id, ${byMetricValues[of]} AS value FROM ${clickhouse.database}.${byMetricTable}
      WHERE ${isPossible} AND ${seriesName} = {name:String} AND ${isAmong} GROUP BY id`,
    params: {
      ...(metrics.length <= possibleMax && { metrics }),
      name,
      ...('ids' in among ? { ids: among.ids } : { low: String(among.low), high: String(among.high) }),
    },
  }
}

/** The current values of a metric as text, each with the experiments that have it. */
export async function listCurrentValues(
  clickhouse: ClickHouse,
  among: Among,
  name: string,
): Promise<{ value: string; ids: string }[]> {
  const { from, params } = selectValues(clickhouse, among, { name, of: 'last' })
  return await clickhouse.rows<{ value: string; ids: string }>(
    `SELECT ${doubleText('number')} AS value, concat('{', arrayStringConcat(groupArray(id), ','), '}') AS ids
     FROM (SELECT id, value AS number FROM (${from})) GROUP BY value`,
    params,
  )
}
