import type { ClickHouse } from '../connection.ts'
import { chunksTable } from './chunks.ts'
import { summaryTable } from './summaries/summary.ts'
import { pointsTable } from './tables.ts'

/** The size of an experiment: its number of series, and the number of points in the longest one. */
export type SeriesTotals = { series: number; pointsMost: number }

export const seriesName = `if(context = '', metric, concat(context, '_', metric))`

/**
 * The sizes of experiments, at a cost that does not grow with their points. An upper bound: repeated deliveries are counted
 * again. Experiments without points are absent.
 */
export async function countSeries(clickhouse: ClickHouse, experimentIds: bigint[]): Promise<Map<bigint, SeriesTotals>> {
  const rows = await clickhouse.rows<{ id: string; series: string; most: string }>(
    `SELECT experiment_id AS id, count() AS series, max(points) AS most FROM (
       SELECT experiment_id, ${seriesName} AS name, sum(rows) AS points FROM ${clickhouse.database}.${summaryTable}
       WHERE experiment_id IN {ids:Array(UInt64)} GROUP BY experiment_id, name)
     GROUP BY experiment_id`,
    { ids: experimentIds },
  )
  return new Map(rows.map((it) => [BigInt(it.id), { series: Number(it.series), pointsMost: Number(it.most) }]))
}

/** The number of points of every series of an experiment, by summary name. Repeated deliveries count until they are merged. */
export async function countPointsBySeries(clickhouse: ClickHouse, experimentId: bigint): Promise<Map<string, number>> {
  const rows = await clickhouse.rows<{ name: string; points: string }>(
    `SELECT ${seriesName} AS name, sum(size) AS points FROM (
       SELECT experiment_id, metric, context, toUInt32(1) AS size FROM ${clickhouse.database}.${pointsTable.name} UNION ALL
       SELECT experiment_id, metric, context, count AS size FROM ${clickhouse.database}.${chunksTable.name})
     WHERE experiment_id = {id:UInt64} GROUP BY name`,
    { id: String(experimentId) },
  )
  return new Map(rows.map((it) => [it.name, Number(it.points)]))
}

/** Ids are sent in the URL of the query, which may be one megabyte long. */
const idsAtOnce = 10_000

/** The summary names of all series of the experiments. */
export async function listSeriesNames(clickhouse: ClickHouse, experimentIds: bigint[]): Promise<string[]> {
  const names = new Set<string>()
  for (let from = 0; from < experimentIds.length; from += idsAtOnce) {
    const rows = await clickhouse.rows<{ name: string }>(
      `SELECT DISTINCT ${seriesName} AS name FROM ${clickhouse.database}.${summaryTable}
       WHERE experiment_id IN {ids:Array(UInt64)}`,
      { ids: experimentIds.slice(from, from + idsAtOnce) },
    )
    for (const { name } of rows) names.add(name)
  }
  return [...names].toSorted()
}
