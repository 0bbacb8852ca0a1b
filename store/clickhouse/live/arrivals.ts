import { minBigInt } from '../../../runtime/bigint.ts'
import { bothForms } from '../../point-forms.ts'
import type { ClickHouse } from '../connection.ts'
import { chunksTable, unfolded } from '../points/chunks.ts'
import { doubleText, toDoubleText } from '../points/double-text.ts'
import { timeOf, whenPresent } from '../points/reads.ts'
import { readStoredPoints, type StoredPoint } from '../points/stored-points.ts'
import { outputLinesTable, pointsTable, present, storedValue } from '../points/tables.ts'
import {
  comparePlaces,
  endOfTime,
  fewLines,
  fewPoints,
  longLinesMax,
  type Place,
  type Position,
  shortLineBytes,
  toDistinct,
  toPlace,
} from './acceptance.ts'

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
    forms: bothForms,
    withSystem: false,
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

/**
 * The next lines of output of every watch, in the same way, of `bytesMax` bytes for all watches together: each has its share, and at
 * least one line. `cut` has the watches with more lines than were read for that.
 */
export async function readArrivedLines(
  clickhouse: ClickHouse,
  watches: Watch[],
  part: LinesPart,
): Promise<{ lines: ArrivedLine[]; cut: ReadonlySet<number> }> {
  if (watches.length === 0) return { lines: [], cut: new Set() }
  const found = part.lastRead === undefined ? await readFewLines(clickhouse, watches, part) : undefined
  if (found?.few) return { lines: found.few, cut: new Set() }
  const isShort = found && !found.hasLong
  const next = isShort ? undefined : await findNext(clickhouse, watches, part)
  const inPart = next ? { ...part, untilMs: next.untilMs } : part
  const { ends, cut } = await findEnds(clickhouse, watches, inPart, next?.ends)
  const read = await readArrived<ArrivedLine>(clickhouse, watches, inPart, { ...lines, ends })
  return { lines: read, cut: next ? cut.union(next.cut) : cut }
}

type LinesPart = Part & {
  /** Of the lines of all watches together. */
  bytesMax: number
  /** How many lines were read last time, if some watch was cut then. */
  lastRead?: number | undefined
}

const ofLine = 'offset, timestamp, context, stderr, present'
const lines = {
  table: outputLinesTable.name,
  identity: `${ofLine}, line`,
  fields: `line, context, stderr, ${timeOf} AS time, ${whenPresent(present.offset, 'offset')} AS offset`,
} satisfies Rows

type FewLines = { few: ArrivedLine[] } | { few: undefined; hasLong: boolean }

async function readFewLines(clickhouse: ClickHouse, watches: Watch[], part: LinesPart): Promise<FewLines> {
  const isLong = `length(line) > ${shortLineBytes}`
  const found = await clickhouse.rows<StoredLine>(
    `SELECT experiment_id, received, request_hi, request_lo, place, ${ofLine}, if(${isLong}, '', line) AS text, ${isLong} AS is_long
     FROM ${clickhouse.database}.${lines.table} PREWHERE ${isLate} LIMIT {most:UInt32} SETTINGS max_threads = 1`,
    { ...toLate(watches, part), most: fewLines + 1 },
  )
  const hasLong = found.some((it) => it.is_long === 1)
  const bytes = found.reduce((sum, it) => sum + Buffer.byteLength(it.text), 0)
  if (hasLong || found.length > fewLines || bytes > part.bytesMax / watches.length) return { few: undefined, hasLong }
  const few = found.map(({ experiment_id, received, request_hi, request_lo, ...it }) => ({
    ...it,
    experimentId: BigInt(experiment_id),
    received: BigInt(received),
    requestHigh: BigInt(request_hi),
    requestLow: BigInt(request_lo),
  }))
  return {
    few: share(few, watches, part, ({ text, context, stderr, timestamp, offset, present: bits, received }) => ({
      line: text,
      context,
      stderr,
      time: bits & present.timestamp ? timestamp : String(received),
      offset: bits & present.offset ? offset : null,
    })),
  }
}

/**
 * Where the next few lines of each watch end, found without reading their texts: gigabytes may wait to be read, and who reads them in
 * parts must not read all of them for each part.
 */
async function findNext(clickhouse: ClickHouse, watches: Watch[], part: LinesPart) {
  const rowsMax = Math.min(part.rowsMax, Math.max(longLinesMax, 2 * (part.lastRead ?? 0)))
  const rows = await readArrived<Arrived>(
    clickhouse,
    watches,
    { ...part, rowsMax },
    { ...lines, identity: ofLine, fields: 'present' },
  )
  const ofWatch = Map.groupBy(rows, (it) => it.watch)
  const ends = watches.map(({ after }, watch) => {
    const last = ofWatch.get(watch)?.at(-1)
    return last ? toPosition(last) : after
  })
  const cut = new Set(watches.keys().filter((watch) => ofWatch.get(watch)?.length === rowsMax))
  const lastMs = rows.reduce((last, it) => Math.max(last, Number(it.received)), 0)
  return { ends, cut, untilMs: lastMs }
}

/** Until where each watch may read for its share of bytes, and which of them have more. */
async function findEnds(clickhouse: ClickHouse, watches: Watch[], part: LinesPart, before?: Position[]) {
  const bytesEach = part.bytesMax / watches.length
  const sized = await readArrived<Arrived & { bytes: string }>(clickhouse, watches, part, {
    ...lines,
    fields: 'length(line) AS bytes',
    ends: before,
  })
  const ends = watches.map((it) => it.after)
  const read = watches.map(() => 0)
  const cut = new Set<number>()
  for (const row of sized) {
    const { watch } = row
    if (cut.has(watch)) continue
    const bytes = (read[watch] as number) + Number(row.bytes)
    if (read[watch] !== 0 && bytes > bytesEach) {
      cut.add(watch)
      continue
    }
    // An empty line is read, too.
    read[watch] = Math.max(bytes, 1)
    ends[watch] = toPosition(row)
  }
  return { ends, cut }
}

type StoredLine = Omit<Arrived, 'watch'> & {
  experiment_id: string
  offset: string
  timestamp: string
  text: string
  is_long: number
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

type Rows = {
  table: string
  chunks?: string
  identity: string
  fields: string
  /** The last position that each watch reads; all that there is without. */
  ends?: Position[] | undefined
}

/** Without `FINAL`, which would read the whole experiment: repeated deliveries have the same position and are read once. */
async function readArrived<Row>(
  clickhouse: ClickHouse,
  watches: Watch[],
  part: Part,
  { table, chunks, identity, fields, ends = watches.map(() => endOfTime) }: Rows,
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
       SELECT w.1 AS watch, w.2 AS watched_id, (w.3, w.4, w.5, w.6) AS read_to, (w.7, w.8, w.9, w.10) AS read_until
       FROM (SELECT arrayJoin(arrayZip(range(toUInt32(length({ids:Array(UInt64)}))), {ids:Array(UInt64)},
         ${positionsOf('after')}, ${positionsOf('end')})) AS w)) AS watches
     ON row.experiment_id = watches.watched_id
     WHERE (received, request_hi, request_lo, place) > read_to AND (received, request_hi, request_lo, place) <= read_until
     ORDER BY watch, received, request_hi, request_lo, place LIMIT {rowsMax:UInt32} BY watch`,
    {
      ...toLate(watches, part),
      ...toParams('after', after),
      ...toParams('end', ends),
      rowsMax: part.rowsMax,
    },
  )
}

const positionsOf = (name: string) =>
  `{${name}Received:Array(Int64)}, {${name}High:Array(UInt64)}, {${name}Low:Array(UInt64)}, {${name}Place:Array(UInt32)}`

const toParams = (name: string, positions: Position[]) => ({
  [`${name}Received`]: positions.map((it) => it.receivedMs),
  [`${name}High`]: positions.map((it) => it.high),
  [`${name}Low`]: positions.map((it) => it.low),
  [`${name}Place`]: positions.map((it) => it.place),
})

export function toPosition(row: Arrived): Position {
  return {
    receivedMs: BigInt(row.received),
    high: BigInt(row.request_hi),
    low: BigInt(row.request_lo),
    place: BigInt(row.place),
  }
}
