import type { ClickHouse } from '../connection.ts'
import { seriesName } from './series-counts.ts'
import { describePoint, mergedSummary, summaryTable } from './summary.ts'

/** The last, the least and the greatest value of a metric. NaN is an extreme only where every value is NaN. */
export type SummaryValues = { last: number; min: number; max: number }

const parts = { last: 'current', min: 'minimum', max: 'maximum' } as const

/** Ids are sent in the URL of the query, which may be one megabyte long. */
const idsAtOnce = 10_000

/**
 * The values of metrics, given by their summary names or all, of many experiments: by experiment, then by name. The cost does
 * not grow with their points.
 */
export async function readSummaryValues(
  clickhouse: ClickHouse,
  experimentIds: bigint[],
  names: string[] | 'all',
): Promise<Map<bigint, Map<string, SummaryValues>>> {
  const found = new Map<bigint, Map<string, SummaryValues>>()
  if (names.length === 0) return found
  const isNamed = names === 'all' ? '' : 'AND metric IN {metrics:Array(String)} AND name IN {names:Array(String)}'
  const params = names === 'all' ? {} : { names, metrics: [...new Set(names.flatMap(toPossibleMetrics))] }
  const value = (it: keyof typeof parts) => `toString(${describePoint(parts[it]).value}) AS ${it}`
  for (let from = 0; from < experimentIds.length; from += idsAtOnce) {
    const rows = await clickhouse.rows<{ id: string; name: string } & Record<keyof SummaryValues, string>>(
      `SELECT experiment_id AS id, name, ${value('last')}, ${value('min')}, ${value('max')} FROM (
         SELECT experiment_id, ${seriesName} AS name, ${mergedSummary}
         FROM ${clickhouse.database}.${summaryTable}
         WHERE experiment_id IN {ids:Array(UInt64)} ${isNamed}
         GROUP BY experiment_id, name)`,
      { ids: experimentIds.slice(from, from + idsAtOnce), ...params },
    )
    for (const { id, name, last, min, max } of rows) {
      const values = found.get(BigInt(id)) ?? new Map<string, SummaryValues>()
      values.set(name, { last: toNumber(last), min: toNumber(min), max: toNumber(max) })
      found.set(BigInt(id), values)
    }
  }
  return found
}

/** A summary name is a metric, or a context, an underscore and a metric. The filter on the metric alone is cheap. */
const toPossibleMetrics = (name: string) => [name, ...[...name.matchAll(/_/g)].map((it) => name.slice(it.index + 1))]

const toNumber = (text: string) => (text.endsWith('inf') ? Number(text.replace('inf', 'Infinity')) : Number(text))

/** All metrics of the experiments, with their contexts. */
export async function listMetrics(
  clickhouse: ClickHouse,
  experimentIds: bigint[],
): Promise<{ metric: string; context: string }[]> {
  const found = new Map<string, { metric: string; context: string }>()
  for (let from = 0; from < experimentIds.length; from += idsAtOnce) {
    const rows = await clickhouse.rows<{ metric: string; context: string }>(
      `SELECT DISTINCT metric, context FROM ${clickhouse.database}.${summaryTable}
       WHERE experiment_id IN {ids:Array(UInt64)} ORDER BY metric, context`,
      { ids: experimentIds.slice(from, from + idsAtOnce) },
    )
    for (const it of rows) found.set(JSON.stringify([it.metric, it.context]), it)
  }
  return [...found.values()]
}
