import { compare } from '../../../runtime/compare.ts'
import { bothForms } from '../../point-forms.ts'
import type { ClickHouse } from '../connection.ts'
import { chunksTable, experimentTables, unfolded } from '../points/chunks.ts'
import { doubleText, toDoubleText } from '../points/double-text.ts'
import { timeOf, whenPresent } from '../points/reads.ts'
import { readStoredPoints, type StoredPoint } from '../points/stored-points.ts'
import { outputLinesTable, pointsTable, present, storedValue, systemPointsTable } from '../points/tables.ts'
import { comparePlaces, fewPoints, type Position, toDistinct, toPlace } from './acceptance.ts'

/** What is new of a metric: how many points, and the newest of them by time, then by step. */
export type ChangedMetric = {
  id: string
  metric: string
  context: string
  points: string
  value: string
  time: string
  step: string | null
}

/** How many lines of output are new. */
export type ChangedOutput = { id: string; lines: string }

/** The newest row of each of these experiments that was accepted after a time and is stored: its acceptance, ms since the Unix epoch. */
export async function readNewest(
  clickhouse: ClickHouse,
  experimentIds: bigint[],
  afterMs: number,
): Promise<Map<bigint, number>> {
  const rows = await clickhouse.rows<{ id: string; newest: string }>(
    `SELECT experiment_id AS id, max(received) AS newest FROM (${experimentTables
      .map(
        ({ name }) => `SELECT experiment_id, received FROM ${clickhouse.database}.${name}
          WHERE experiment_id IN {ids:Array(UInt64)} AND received > {after:Int64}`,
      )
      .join(' UNION ALL ')}) GROUP BY experiment_id`,
    { ids: experimentIds, after: afterMs },
  )
  return new Map(rows.map((it) => [BigInt(it.id), Number(it.newest)]))
}

type Part = { experimentIds: bigint[]; after: Position; before: Position }

const isBetween = 'received >= {received:Int64} AND received < {before:Int64}'
const isWithin = `(received, request_hi, request_lo, place) > ({received:Int64}, {high:UInt64}, {low:UInt64}, {place:UInt32})
  AND ${isBetween}`

const toParams = ({ experimentIds, after, before }: Part) => ({
  ids: experimentIds,
  received: after.receivedMs,
  high: after.high,
  low: after.low,
  place: after.place,
  before: before.receivedMs,
})

/** The metrics, resource usage included, of experiments with points accepted between two positions. Repeated deliveries are counted once. */
export async function readChangedMetrics(clickhouse: ClickHouse, part: Part): Promise<ChangedMetric[]> {
  const few = await readStoredPoints(clickhouse, {
    forms: bothForms,
    withSystem: true,
    where: `experiment_id IN {ids:Array(UInt64)} AND ${isBetween}`,
    params: toParams(part),
    isFinal: false,
    withIds: true,
    most: fewPoints,
  })
  if (few) return toChanged(few, part)
  return await clickhouse.rows<ChangedMetric>(
    `SELECT experiment_id AS id, metric, context, points, ${doubleText('tupleElement(newest, 1)')} AS value,
       tupleElement(newest, 2) AS time, tupleElement(newest, 3) AS step
     FROM (SELECT experiment_id, metric, context, count() AS points,
       argMax((number, at, maybe_step), (at, step, request_hi, request_lo, place)) AS newest FROM (SELECT *, ${storedValue} AS number, ${timeOf} AS at, ${whenPresent(present.step, 'step')} AS maybe_step FROM (
       SELECT DISTINCT experiment_id, metric, context, step, timestamp, received, request_hi, request_lo, place, epoch,
         present, value_bits
       FROM (${selectArrived(clickhouse)}))) 
     GROUP BY experiment_id, metric, context) ORDER BY experiment_id, metric, context`,
    toParams(part),
  )
}

function toChanged(points: StoredPoint[], { after }: Part): ChangedMetric[] {
  const read = toPlace(after)
  const unread = points.filter((it) => comparePlaces(it, read) > 0)
  const ofSeries = Map.groupBy(unread, (it) => JSON.stringify([String(it.experimentId), it.metric, it.context]))
  const changed = [...ofSeries.values()].map((series) => {
    const distinct = toDistinct(series, ({ step, time, epoch, present: bits, value }) =>
      [step, time, epoch, bits, toDoubleText(value)].map(String),
    )
    const newest = distinct.reduce((newest, it) => (isNewer(it, newest) ? it : newest))
    return {
      id: String(newest.experimentId),
      metric: newest.metric,
      context: newest.context,
      points: String(distinct.length),
      value: toDoubleText(newest.value),
      time: String(newest.time),
      step: newest.present & present.step ? String(newest.step) : null,
    }
  })
  return changed.sort((one, other) => compare(one.metric, other.metric) || compare(one.context, other.context))
}

/** By time, then by step, then by request. */
const isNewer = (one: StoredPoint, other: StoredPoint) =>
  (compare(one.time, other.time) ||
    compare(one.step, other.step) ||
    compare(one.requestHigh, other.requestHigh) ||
    compare(one.requestLow, other.requestLow) ||
    one.place - other.place) > 0

const pointColumns = `experiment_id, metric, context, step, timestamp, received, request_hi, request_lo, place, epoch, present`

function selectArrived({ database }: ClickHouse): string {
  const ofRows = [pointsTable, systemPointsTable].map(
    ({ name }) => `SELECT ${pointColumns}, value_bits FROM ${database}.${name}
      WHERE experiment_id IN {ids:Array(UInt64)} AND ${isWithin}`,
  )
  const ofChunks = `SELECT ${pointColumns}, bits AS value_bits FROM ${database}.${chunksTable.name} ${unfolded}
    PREWHERE experiment_id IN {ids:Array(UInt64)} AND ${isBetween} WHERE ${isWithin}`
  return [...ofRows, ofChunks].join(' UNION ALL ')
}

/** The same of lines of output. */
export async function readChangedOutput(clickhouse: ClickHouse, part: Part): Promise<ChangedOutput[]> {
  return await clickhouse.rows<ChangedOutput>(
    `SELECT experiment_id AS id, count() AS lines FROM (
       SELECT DISTINCT experiment_id, offset, timestamp, request_hi, request_lo, place, line, present
       FROM ${clickhouse.database}.${outputLinesTable.name} WHERE experiment_id IN {ids:Array(UInt64)} AND ${isWithin})
     GROUP BY experiment_id ORDER BY experiment_id`,
    toParams(part),
  )
}
