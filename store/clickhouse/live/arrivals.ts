import { minBigInt } from '../../../runtime/bigint.ts'
import type { ClickHouse } from '../connection.ts'
import { chunksTable, unfolded } from '../points/chunks.ts'
import { doubleText, toDoubleText } from '../points/double-text.ts'
import { timeOf, whenPresent } from '../points/reads.ts'
import { readStoredPoints, type StoredPoint } from '../points/stored-points.ts'
import { outputLinesTable, pointsTable, present, storedValue } from '../points/tables.ts'
import { comparePlaces, fewLines, fewPoints, type Place, type Position, toDistinct, toPlace } from './acceptance.ts'

/** Reads the rows accepted after a position, in the order of acceptance. */

/** One reader's position in the stream of an experiment. */
export type Watch = { experimentId: bigint; after: Position }

type Arrived = { watch: number; received: string; request_hi: string; request_lo: string; place: number }

export type ArrivedPoint = Arrived & {
  metric: string
  context: string
  value: string
  time: string
  step: string | null
  epoch: string | null
}

export type ArrivedLine = Arrived & {
  line: string
  context: string
  stderr: number
  time: string
  offset: string | null
}

type Part = {
  /** Rows accepted later are left out. */
  untilMs: number
  /** Per watch. */
  rowsMax: number
}

/** The next points of every watch, in order of acceptance; `watch` is its index in the list. */
export async function readArrivedPoints(clickhouse: ClickHouse, watches: Watch[], part: Part): Promise<ArrivedPoint[]> {
  if (watches.length === 0) return []
  const few = await readStoredPoints(clickhouse, {
    tables: [pointsTable],
    hasChunks: true,
    where: isLate,
    params: toLate(watches, part),
    isFinal: false,
    withIds: true,
    most: fewPoints,
  })
  if (few) return share(few, watches, part, toArrivedPoint)
  return await readArrived<ArrivedPoint>(clickhouse, watches, part, {
    table: pointsTable.name,
    chunks: chunksTable.name,
    identity: 'metric, context, step, timestamp, epoch, present, value_bits',
    fields: `metric, context, ${doubleText(storedValue)} AS value, ${timeOf} AS time,
      ${whenPresent(present.step, 'step')} AS step, ${whenPresent(present.epoch, 'epoch')} AS epoch`,
  })
}

/** The next lines of output of every watch, in the same way. */
export async function readArrivedLines(clickhouse: ClickHouse, watches: Watch[], part: Part): Promise<ArrivedLine[]> {
  if (watches.length === 0) return []
  const rows: Rows = {
    table: outputLinesTable.name,
    identity: 'offset, timestamp, line, context, stderr, present',
    fields: `line, context, stderr, ${timeOf} AS time, ${whenPresent(present.offset, 'offset')} AS offset`,
  }
  const few = await clickhouse.rows<StoredLine>(
    `SELECT experiment_id, received, request_hi, request_lo, place, ${rows.identity}
     FROM ${clickhouse.database}.${rows.table} PREWHERE ${isLate} LIMIT {most:UInt32} SETTINGS max_threads = 1`,
    { ...toLate(watches, part), most: fewLines + 1 },
  )
  if (few.length > fewLines) return await readArrived<ArrivedLine>(clickhouse, watches, part, rows)
  const lines = few.map(({ experiment_id, received, request_hi, request_lo, ...it }) => ({
    ...it,
    experimentId: BigInt(experiment_id),
    received: BigInt(received),
    requestHigh: BigInt(request_hi),
    requestLow: BigInt(request_lo),
  }))
  return share(lines, watches, part, ({ line, context, stderr, timestamp, offset, present: bits, received }) => ({
    line,
    context,
    stderr,
    time: bits & present.timestamp ? timestamp : String(received),
    offset: bits & present.offset ? offset : null,
  }))
}

type StoredLine = Omit<Arrived, 'watch'> & {
  experiment_id: string
  offset: string
  timestamp: string
  line: string
  context: string
  stderr: number
  present: number
}

const toArrivedPoint = ({ metric, context, value, time, step, epoch, present: bits }: StoredPoint) => ({
  metric,
  context,
  value: toDoubleText(value),
  time: String(time),
  step: bits & present.step ? String(step) : null,
  epoch: bits & present.epoch ? String(epoch) : null,
})

/** What each watch has not read yet of these rows. */
function share<Row extends Place & { experimentId: bigint }, Fields extends object>(
  rows: Row[],
  watches: Watch[],
  { rowsMax }: Part,
  toFields: (row: Row) => Fields,
): (Arrived & Fields)[] {
  const ofExperiment = Map.groupBy(rows, (it) => it.experimentId)
  const distinct = new Map([...ofExperiment].map(([id, all]) => [id, toDistinct(all, toFields)]))
  return watches.flatMap(({ experimentId, after }, watch) => {
    const all = distinct.get(experimentId) ?? []
    const read = toPlace(after)
    const from = all.findIndex((it) => comparePlaces(it, read) > 0)
    if (from < 0) return []
    return all.slice(from, from + rowsMax).map((it) => ({
      watch,
      received: String(it.received),
      request_hi: String(it.requestHigh),
      request_lo: String(it.requestLow),
      place: it.place,
      ...toFields(it),
    }))
  })
}

const isLate = 'experiment_id IN {ids:Array(UInt64)} AND received >= {earliest:Int64} AND received <= {until:Int64}'

const toLate = (watches: Watch[], { untilMs }: Part) => ({
  ids: watches.map((it) => it.experimentId),
  earliest: watches.map((it) => it.after.receivedMs).reduce(minBigInt),
  until: untilMs,
})

type Rows = { table: string; chunks?: string; identity: string; fields: string }

/** Without `FINAL`, which would read the whole experiment: repeated deliveries have the same position and are read once. */
async function readArrived<Row>(
  clickhouse: ClickHouse,
  watches: Watch[],
  part: Part,
  { table, chunks, identity, fields }: Rows,
): Promise<Row[]> {
  const after = watches.map((it) => it.after)
  const columns = `experiment_id, received, request_hi, request_lo, place, ${identity}`
  const { database } = clickhouse
  const ofChunks = `UNION ALL SELECT ${columns.replace('value_bits', 'bits AS value_bits')}
    FROM (SELECT * FROM ${database}.${chunks} WHERE ${isLate}) ${unfolded}`
  return await clickhouse.rows<Row>(
    `SELECT watch, received, request_hi, request_lo, place, ${fields} FROM (
       SELECT DISTINCT ${columns} FROM (
         SELECT ${columns} FROM ${database}.${table} WHERE ${isLate} ${chunks === undefined ? '' : ofChunks})) AS row
     INNER JOIN (
       SELECT w.1 AS watch, w.2 AS watched_id, w.3 AS after_received, w.4 AS after_hi, w.5 AS after_lo, w.6 AS after_place
       FROM (SELECT arrayJoin(arrayZip(range(toUInt32(length({ids:Array(UInt64)}))), {ids:Array(UInt64)},
         {received:Array(Int64)}, {high:Array(UInt64)}, {low:Array(UInt64)}, {place:Array(UInt32)})) AS w)) AS watches
     ON row.experiment_id = watches.watched_id
     WHERE (received, request_hi, request_lo, place) > (after_received, after_hi, after_lo, after_place)
     ORDER BY watch, received, request_hi, request_lo, place LIMIT {rowsMax:UInt32} BY watch`,
    {
      ...toLate(watches, part),
      received: after.map((it) => it.receivedMs),
      high: after.map((it) => it.high),
      low: after.map((it) => it.low),
      place: after.map((it) => it.place),
      rowsMax: part.rowsMax,
    },
  )
}

export function toPosition(row: Arrived): Position {
  return {
    receivedMs: BigInt(row.received),
    high: BigInt(row.request_hi),
    low: BigInt(row.request_lo),
    place: BigInt(row.place),
  }
}
