import { buffer } from 'node:stream/consumers'
import type { PointForms } from '../../point-forms.ts'
import type { ClickHouse } from '../connection.ts'
import { chunksTable } from './chunks.ts'
import { pointsTable, present, systemPointsTable } from './tables.ts'

/**
 * Reads few points as they are stored, rows and chunks, and takes the points out of the chunks here: ClickHouse takes longer to
 * analyze a query that does so than to read some hundred points.
 */

/** A point as it is stored. */
export type StoredPoint = {
  /** 0 where the ids were not asked for. */
  experimentId: bigint
  metric: string
  context: string
  received: bigint
  step: bigint
  /** Its timestamp, or when it was received. */
  time: bigint
  epoch: bigint
  present: number
  value: number
  requestHigh: bigint
  requestLow: bigint
  place: number
}

type Part = {
  forms: PointForms
  /** Whether resource usage is read as well. */
  withSystem: boolean
  /** A condition on columns that rows and chunks have in common. */
  where: string
  params: Record<string, unknown>
  /** Without repetitions, which takes ClickHouse longer. */
  isFinal: boolean
  withIds: boolean
  /** At most some thousand. */
  most: number
  /** How many chunks are read at first, where one may have more points than are wanted in all. */
  chunksFirst?: number
}

/** The columns of a chunk. A point is one without lists. */
const ofChunks =
  'metric, context, received, request_hi, request_lo, present_all, first_place, value_bits, steps, timestamps, epochs, places, presents'
const ofPoint =
  'metric, context, received, request_hi, request_lo, present AS present_all, place AS first_place, value_bits, step, timestamp, epoch, place, present'

/** More than points of any name take that are not too many. */
const bytesMax = 32 * 1024 ** 2
/** A second thread would wait for a core beside others, and has little to do. */
const light = `max_threads = 1, max_result_bytes = ${bytesMax}, result_overflow_mode = 'break'`

/**
 * The analyzer before the one for complex queries takes a third less for columns of one table (measured with 400 rows: 2.3 instead of
 * 3.3 ms of CPU). It does not stop at a limit of chunks, of which 65 of a long series took 64 instead of 10 ms.
 */
const plainlyAnalyzed = 'enable_analyzer = 0'

/** The points that meet a condition, in no order; undefined if there are more than `most`. */
export async function readStoredPoints(
  clickhouse: ClickHouse,
  { forms, withSystem, where, params, isFinal, withIds, most, chunksFirst = most }: Part,
): Promise<StoredPoint[] | undefined> {
  const { database } = clickhouse
  const final = isFinal ? 'FINAL' : ''
  const ids = withIds ? 'experiment_id, ' : ''
  const settings = `SETTINGS ${light} FORMAT RowBinary`
  const plainly = `SETTINGS ${light}, ${plainlyAnalyzed} FORMAT RowBinary`
  const tables = [...(forms.hasRows ? [pointsTable] : []), ...(withSystem ? [systemPointsTable] : [])]
  const rows = tables
    .map(({ name }) => `SELECT ${ids}${ofPoint} FROM ${database}.${name} ${final} WHERE ${where} LIMIT {limit:UInt32}`)
    .join(' UNION ALL ')
  const selectChunks = (limit: number) =>
    `SELECT ${ids}${ofChunks} FROM ${database}.${chunksTable.name} ${final} PREWHERE ${where} LIMIT ${limit} ${settings}`
  const ask = async (queries: string[]) => {
    const answers = await clickhouse.streams(queries, { ...params, limit: most + 1 })
    return await Promise.all(answers.map((it) => buffer(it)))
  }

  // One query for both takes half as long again: most of that is analysis, which is the work of one core.
  const chunksAtFirst = Math.min(chunksFirst, most) + 1
  const answers = await ask([
    ...(tables.length > 0 ? [`${rows} ${isFinal && tables.length === 1 ? plainly : settings}`] : []),
    ...(forms.hasChunks ? [selectChunks(chunksAtFirst)] : []),
  ])
  const single = tables.length > 0 ? answers.shift() : undefined
  const [some] = answers
  const points: StoredPoint[] = []
  const push = (bytes: Buffer | undefined, hasLists: boolean) =>
    pushPoints(points, bytes ?? Buffer.of(), { hasLists, withIds, most })
  const ofRows = push(single, false)
  if (ofRows === undefined) return undefined
  const chunks = push(some, true)
  if (chunks === undefined || chunks > most) return undefined
  if (chunks < chunksAtFirst) return points
  points.length = ofRows
  const [all] = await ask([selectChunks(most + 1)])
  return (push(all, true) ?? most + 1) > most ? undefined : points
}

/**
 * @param hasLists else each has one point, without a length before it
 * @returns the rows; undefined when there are more points than `most`
 */
function pushPoints(
  points: StoredPoint[],
  bytes: Buffer,
  { hasLists, withIds, most }: { hasLists: boolean; withIds: boolean; most: number },
): number | undefined {
  let rows = 0
  let at = 0
  /** Seven bits a byte. */
  function readLength(): number {
    let length = 0
    for (let shift = 0; ; shift += 7) {
      const byte = bytes[at++] as number
      length |= (byte & 0x7f) << shift
      if (byte < 0x80) return length
    }
  }
  function readText(): string {
    const length = readLength()
    at += length
    return bytes.toString('utf8', at - length, at)
  }
  /** Where a list starts, and its length. */
  function readList(width: number) {
    const length = hasLists ? readLength() : 1
    const start = at
    at += length * width
    return { length, start }
  }
  while (at < bytes.length) {
    const experimentId = withIds ? bytes.readBigUInt64LE(at) : 0n
    if (withIds) at += 8
    const metric = readText()
    const context = readText()
    const received = bytes.readBigInt64LE(at)
    const requestHigh = bytes.readBigUInt64LE(at + 8)
    const requestLow = bytes.readBigUInt64LE(at + 16)
    const presentAll = bytes[at + 24] as number
    const firstPlace = bytes.readUInt32LE(at + 25)
    at += 29
    const values = readList(8)
    const steps = readList(8)
    const timestamps = readList(8)
    const epochs = readList(8)
    const places = readList(4)
    const presents = readList(1)
    if (points.length + values.length > most) return undefined
    rows++
    const integer = ({ start, length }: typeof steps, index: number) =>
      length === 0 ? 0n : bytes.readBigInt64LE(start + index * 8)
    for (let index = 0; index < values.length; index++) {
      const bits = presents.length === 0 ? presentAll : (bytes[presents.start + index] as number)
      points.push({
        experimentId,
        metric,
        context,
        received,
        requestHigh,
        requestLow,
        value: bytes.readDoubleLE(values.start + index * 8),
        step: integer(steps, index),
        time: bits & present.timestamp ? integer(timestamps, index) : received,
        epoch: integer(epochs, index),
        place: places.length === 0 ? firstPlace + index : bytes.readUInt32LE(places.start + index * 4),
        present: bits,
      })
    }
  }
  return rows
}
