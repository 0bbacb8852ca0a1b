import { createDistributed, type Layout, onCluster, toEngine, toLocal } from '../../cluster/layout.ts'
import { summaryTable, summaryWords } from './summary.ts'

/**
 * The values of the summary, ordered by metric: what one metric is in a hundred thousand experiments lies together. In the
 * summary, which is ordered by experiment, every block has some of it, so all of a project would be read.
 *
 * A view on the summary fills it, so its rows are as safe to repeat.
 */
export const byMetricTable = 'points_by_metric'

const { leastWord, greatestWord } = summaryWords

const columns = [
  { name: 'least', type: 'SimpleAggregateFunction(min, UInt64)', from: leastWord },
  { name: 'greatest', type: 'SimpleAggregateFunction(max, UInt64)', from: greatestWord },
  { name: 'current', type: 'SimpleAggregateFunction(max, UInt256)', from: 'current' },
  { name: 'current_bits', type: 'AggregateFunction(argMax, UInt64, UInt256)', from: 'current_bits' },
]

const series = 'metric, context, experiment_id'

/** The statements that create the table and the view that fills it. */
export function createByMetric(layout: Layout, settings: string): string[] {
  const { database } = layout
  const local = toLocal(layout, byMetricTable)
  return [
    `CREATE TABLE IF NOT EXISTS ${database}.${local}${onCluster(layout)} (
      metric LowCardinality(String), context LowCardinality(String), experiment_id UInt64 CODEC(Delta, ZSTD(1)),
      ${columns.map((it) => `${it.name} ${it.type} CODEC(ZSTD(1))`).join(', ')}
    ) ENGINE = ${toEngine(layout, local, 'AggregatingMergeTree')} ORDER BY (${series}) SETTINGS ${settings}`,
    `CREATE MATERIALIZED VIEW IF NOT EXISTS ${database}.${byMetricTable}_view${onCluster(layout)} TO ${database}.${local} AS
     ${selectByMetric(`${database}.${toLocal(layout, summaryTable)}`)}`,
    ...createDistributed(layout, byMetricTable, 'experiment_id'),
  ]
}

/** The query of the view. Over the whole summary it returns the whole table. */
export const selectByMetric = (summary: string, where = 'true') =>
  `SELECT ${series}, ${columns.map((it) => `${it.from} AS ${it.name}`).join(', ')} FROM ${summary} WHERE ${where}`

/** The value of each part of the summary, as an aggregate over the rows of a series. */
export const byMetricValues = {
  last: 'reinterpretAsFloat64(argMaxMerge(current_bits))',
  min: summaryWords.toFloat('min(least)'),
  max: summaryWords.toFloat('max(greatest)'),
} as const
