import type { ClickHouse } from '../../connection.ts'
import { seriesName } from '../series-counts.ts'
import { describePoint, mergedSummary, summaryTable } from './summary.ts'

/** The last, the least and the greatest value of a metric. NaN is an extreme only where every value is NaN. */
export type SummaryValues = { last: number; min: number; max: number }

const keys = { last: 'current', min: 'minimum', max: 'maximum' } as const
const allParts = ['last', 'min', 'max'] as const

/** Ids are sent in the URL of the query, which may be one megabyte long. */
const idsAtOnce = 10_000

/**
 * The values of metrics, given by their summary names or all, of many experiments: by experiment, then by name. The cost does
 * not grow with their points, but with the parts of the summary that are read.
 */
export async function readSummaryValues<Part extends keyof SummaryValues = keyof SummaryValues>(
  clickhouse: ClickHouse,
  experimentIds: bigint[],
  names: string[] | 'all',
  parts: readonly Part[] = allParts as readonly unknown[] as readonly Part[],
): Promise<Map<bigint, Map<string, Pick<SummaryValues, Part>>>> {
  const found = new Map<bigint, Map<string, Pick<SummaryValues, Part>>>()
  if (names.length === 0) return found
  // A name is put together only where there is a context: for each row it would cost as much as to read the row.
  const hasName = "if(context = '', metric IN {names:Array(String)}, name IN {names:Array(String)})"
  const isNamed = names === 'all' ? '' : `AND metric IN {metrics:Array(String)} AND ${hasName}`
  const params = names === 'all' ? {} : { names, metrics: [...new Set(names.flatMap(toPossibleMetrics))] }
  const selected = parts.map((it) => `, toString(${describePoint(keys[it]).value}) AS ${it}`).join('')
  for (let from = 0; from < experimentIds.length; from += idsAtOnce) {
    const rows = await clickhouse.rows<{ id: string; name: string } & Record<Part, string>>(
      `SELECT experiment_id AS id, name${selected} FROM (
         SELECT experiment_id, ${seriesName} AS name, ${mergedSummary}
         FROM ${clickhouse.database}.${summaryTable}
         WHERE experiment_id IN {ids:Array(UInt64)} ${isNamed}
         GROUP BY experiment_id, name)`,
      { ids: experimentIds.slice(from, from + idsAtOnce), ...params },
    )
    for (const row of rows) {
      const values = found.get(BigInt(row.id)) ?? new Map<string, Pick<SummaryValues, Part>>()
      const numbers = parts.map((part) => [part, toNumber(row[part])])
      found.set(BigInt(row.id), values.set(row.name, Object.fromEntries(numbers) as Pick<SummaryValues, Part>))
    }
  }
  return found
}

/** A summary name is a metric, or a context, an underscore and a metric. The filter on the metric alone is cheap. */
export const toPossibleMetrics = (name: string) => [
  name,
  ...[...name.matchAll(/_/g)].map((it) => name.slice(it.index + 1)),
]

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
