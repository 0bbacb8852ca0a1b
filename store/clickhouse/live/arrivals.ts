import { minBigInt } from '../../../runtime/bigint.ts'
import type { ClickHouse } from '../connection.ts'
import { chunksTable, unfolded } from '../points/chunks.ts'
import { doubleText } from '../points/double-text.ts'
import { timeOf, whenPresent } from '../points/reads.ts'
import { outputLinesTable, pointsTable, present, storedValue } from '../points/tables.ts'

/**
 * Reads the rows accepted after a position. They are ordered by `received`, then by request, then by index in the request:
 * a total order that is the same on every replica and for repeated deliveries.
 */
export type Position = { receivedMs: bigint; high: bigint; low: bigint; place: bigint }

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
export function readArrivedPoints(clickhouse: ClickHouse, watches: Watch[], part: Part): Promise<ArrivedPoint[]> {
  return readArrived<ArrivedPoint>(clickhouse, watches, part, {
    table: pointsTable.name,
    chunks: chunksTable.name,
    identity: 'metric, context, step, timestamp, epoch, present, value_bits',
    fields: `metric, context, ${doubleText(storedValue)} AS value, ${timeOf} AS time,
      ${whenPresent(present.step, 'step')} AS step, ${whenPresent(present.epoch, 'epoch')} AS epoch`,
  })
}

/** The next lines of output of every watch, in the same way. */
export function readArrivedLines(clickhouse: ClickHouse, watches: Watch[], part: Part): Promise<ArrivedLine[]> {
  return readArrived<ArrivedLine>(clickhouse, watches, part, {
    table: outputLinesTable.name,
    identity: 'offset, timestamp, line, context, stderr, present',
    fields: `line, context, stderr, ${timeOf} AS time, ${whenPresent(present.offset, 'offset')} AS offset`,
  })
}

type Rows = { table: string; chunks?: string; identity: string; fields: string }

/** Without `FINAL`, which would read the whole experiment: repeated deliveries have the same position and are read once. */
async function readArrived<Row>(
  clickhouse: ClickHouse,
  watches: Watch[],
  { untilMs, rowsMax }: Part,
  { table, chunks, identity, fields }: Rows,
): Promise<Row[]> {
  if (watches.length === 0) return []
  const after = watches.map((it) => it.after)
  const earliest = after.map((it) => it.receivedMs).reduce(minBigInt)
  const columns = `experiment_id, received, request_hi, request_lo, place, ${identity}`
  const isLate = 'experiment_id IN {ids:Array(UInt64)} AND received >= {earliest:Int64} AND received <= {until:Int64}'
  const { database } = clickhouse
  const ofChunks = `UNION ALL SELECT ${columns.replace('value_bits', 'bits AS value_bits')}
    FROM (SELECT * FROM ${database}.${chunks} WHERE ${isLate}) ${unfolded}`
  return await clickhouse.rows<Row>(
    `SELECT watch, received, request_hi, request_lo, place, ${fields} FROM (
       SELECT DISTINCT ${columns} FROM (
         SELECT ${columns} FROM ${database}.${table} WHERE ${isLate} ${chunks === undefined ? '' : ofChunks})) AS row
     INNER JOIN (
       SELECT w.1 AS watch, w.2 AS watched_id, w.3 AS after_received, w.4 AS after_hi, w.5 AS after_lo, w.6 AS after_place
       FROM (SELECT arrayJoin(arrayZip(range(length({ids:Array(UInt64)})), {ids:Array(UInt64)},
         {received:Array(Int64)}, {high:Array(UInt64)}, {low:Array(UInt64)}, {place:Array(UInt32)})) AS w)) AS watches
     ON row.experiment_id = watches.watched_id
     WHERE (received, request_hi, request_lo, place) > (after_received, after_hi, after_lo, after_place)
     ORDER BY watch, received, request_hi, request_lo, place LIMIT {rowsMax:UInt32} BY watch`,
    {
      ids: watches.map((it) => it.experimentId),
      received: after.map((it) => it.receivedMs),
      high: after.map((it) => it.high),
      low: after.map((it) => it.low),
      place: after.map((it) => it.place),
      earliest,
      until: untilMs,
      rowsMax,
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
