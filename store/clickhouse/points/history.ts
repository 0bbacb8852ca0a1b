import type { ClickHouse } from '../connection.ts'
import { type SeriesName, selectPoints, seriesParams } from './reads.ts'
import { seriesName } from './series-counts.ts'
import { describePoint, mergedSummary, summaryTable } from './summaries/summary.ts'

/** A point with its value as a number. Step and time keep all their digits. */
export type HistoryPoint = { value: number; step: bigint; timeMs: bigint }

type Row = { value: string; step: string; time: string }

const toPoint = ({ value, step, time }: Row): HistoryPoint => ({
  value: toNumber(value),
  step: BigInt(step),
  timeMs: BigInt(time),
})

const toNumber = (text: string) => (text.endsWith('inf') ? Number(text.replace('inf', 'Infinity')) : Number(text))

/** The points of a series by time, step and value: `limit` of them, from `offset` on. */
export async function readHistory(
  clickhouse: ClickHouse,
  series: SeriesName,
  { limit, offset }: { limit: number; offset: number },
): Promise<HistoryPoint[]> {
  const rows = await clickhouse.rows<Row>(
    `SELECT toString(p.value) AS value, toString(p.step) AS step, toString(p.time) AS time
     FROM (${selectPoints(clickhouse, series, { isFinal: true })}) AS p
     ORDER BY p.time, p.step, p.value LIMIT ${limit} OFFSET ${offset}`,
    seriesParams(series),
  )
  return rows.map(toPoint)
}

/**
 * The points of a series within a range of steps, by step. Of more than `stepsMax` steps it takes every so-manieth, and the last.
 */
export async function readStepsOfHistory(
  clickhouse: ClickHouse,
  series: SeriesName,
  { fromStep, toStep, stepsMax }: { fromStep: bigint; toStep: bigint; stepsMax: number },
): Promise<HistoryPoint[]> {
  const points = selectPoints(clickhouse, series, { isFinal: true })
  const rows = await clickhouse.rows<Row>(
    `WITH inside AS (SELECT p.value AS value, p.step AS step, p.time AS time,
       dense_rank() OVER (ORDER BY p.step) AS place FROM (${points}) AS p
       WHERE p.step BETWEEN {from:Int64} AND {to:Int64})
     SELECT toString(value) AS value, toString(step) AS step, toString(time) AS time FROM inside
     WHERE (place - 1) % greatest(1, toUInt64(ceil((SELECT max(place) FROM inside) / ${stepsMax}))) = 0
       OR place = (SELECT max(place) FROM inside)
     ORDER BY inside.step, inside.time, inside.value`,
    { ...seriesParams(series), from: String(fromStep), to: String(toStep) },
  )
  return rows.map(toPoint)
}

/** Ids are sent in the URL of the query, which may be one megabyte long. */
const idsAtOnce = 10_000

/** The newest point of every metric of experiments, by experiment and name. The cost does not grow with their points. */
export async function readLatestPoints(
  clickhouse: ClickHouse,
  experimentIds: bigint[],
): Promise<Map<bigint, Map<string, HistoryPoint>>> {
  const { value, step, time } = describePoint('current')
  const found = new Map<bigint, Map<string, HistoryPoint>>()
  for (let from = 0; from < experimentIds.length; from += idsAtOnce) {
    const rows = await clickhouse.rows<Row & { id: string; name: string }>(
      `SELECT experiment_id AS id, name, toString(${value}) AS value, toString(${step}) AS step, toString(${time}) AS time
       FROM (SELECT experiment_id, ${seriesName} AS name, ${mergedSummary} FROM ${clickhouse.database}.${summaryTable}
         WHERE experiment_id IN {ids:Array(UInt64)} GROUP BY experiment_id, name) ORDER BY name`,
      { ids: experimentIds.slice(from, from + idsAtOnce) },
    )
    for (const row of rows) {
      const of = found.get(BigInt(row.id)) ?? new Map<string, HistoryPoint>()
      found.set(BigInt(row.id), of.set(row.name, toPoint(row)))
    }
  }
  return found
}
