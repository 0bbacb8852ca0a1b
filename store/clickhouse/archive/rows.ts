import type { Readable } from 'node:stream'
import { promisify } from 'node:util'
import zlib from 'node:zlib'
import { createNativeBlock, type NativeBlock } from '../blocks/native-block.ts'
import type { ClickHouse } from '../connection.ts'
import { selectPointRows } from '../points/chunks.ts'
import { storeBlocks } from '../points/store-blocks.ts'
import { outputLinesTable, pointsTable, systemPointsTable } from '../points/tables.ts'
import type { Table } from '../table.ts'

/**
 * What experiments logged, in their archive: lines of JSON, a list of columns each. Nothing is left out, neither the identity of
 * a row nor when it was received, so that reads of the copy answer the same. Experiments are named by their place in the archive;
 * 64-bit integers are text, and a value is its bits.
 */
type Column = {
  name: string
  from?: string
  read(value: unknown, experiments: number): number | bigint | string | undefined
}

const isText = (value: unknown, charactersMax: number, charactersMin = 0) =>
  typeof value === 'string' &&
  value.length >= charactersMin &&
  value.length <= charactersMax &&
  value.isWellFormed() &&
  !value.includes('\0')

const text = (name: string, charactersMax: number, charactersMin = 0): Column => ({
  name,
  from: `toString(exported.${name})`,
  read: (value) => (isText(value, charactersMax, charactersMin) ? (value as string) : undefined),
})

const integer = (name: string, max: number): Column => ({
  name,
  read: (value) => (Number.isInteger(value) && Number(value) >= 0 && Number(value) <= max ? Number(value) : undefined),
})

function int64(name: string, least: bigint, most: bigint): Column {
  const read = (value: unknown) => {
    if (typeof value !== 'string' || !/^-?\d{1,20}$/.test(value)) return undefined
    const short = Number(value)
    if (Number.isSafeInteger(short) && short >= least) return short + 0
    const exact = BigInt(value)
    return exact >= least && exact <= most ? exact : undefined
  }
  return { name, read }
}
const signed = (name: string) => int64(name, -(2n ** 63n), 2n ** 63n - 1n)
const unsigned = (name: string) => int64(name, 0n, 2n ** 64n - 1n)

const bits = new BigUint64Array(1)
const float = new Float64Array(bits.buffer)
const value: Column = {
  name: 'value',
  from: 'exported.value_bits',
  read(it) {
    const read = unsigned('value').read(it, 0)
    if (read === undefined) return undefined
    bits[0] = BigInt(read)
    return float[0]
  },
}

const experiment: Column = {
  name: 'experiment_id',
  read: (place, experiments) =>
    Number.isInteger(place) && Number(place) >= 0 && Number(place) < experiments ? Number(place) : undefined,
}

const request = [unsigned('request_hi'), unsigned('request_lo'), integer('place', 2 ** 32 - 1)]
const pointColumns = [
  experiment,
  text('metric', 1_000, 1),
  text('context', 1_000),
  signed('step'),
  signed('timestamp'),
  ...request,
  signed('epoch'),
  signed('received'),
  integer('present', 15),
  value,
]
const lineColumns = [
  experiment,
  signed('offset'),
  signed('timestamp'),
  ...request,
  text('context', 1_000),
  integer('stderr', 1),
  signed('received'),
  integer('present', 15),
  text('line', 1_000_000),
]

/** By their names in the archive. */
export const loggedTables = {
  points: { table: pointsTable as Table, columns: pointColumns },
  'system-points': { table: systemPointsTable as Table, columns: pointColumns },
  output: { table: outputLinesTable as Table, columns: lineColumns },
}

export type LoggedTable = keyof typeof loggedTables

/** Streams the rows of experiments as lines. Destroying the stream, or the signal, ends the query. */
export async function streamLogged(
  clickhouse: ClickHouse,
  name: LoggedTable,
  experimentIds: bigint[],
  signal: AbortSignal,
): Promise<Readable> {
  const { table, columns } = loggedTables[name]
  const ids = experimentIds.join(', ')
  const selected = columns.map((it) => {
    if (it === experiment)
      return `transform(exported.experiment_id, [${ids}], [${experimentIds.map((_, place) => place)}], 0)`
    return it.from ?? `exported.${it.name}`
  })
  // The points of chunks are in the archive like those of rows.
  const from =
    name === 'points'
      ? `(${selectPointRows(clickhouse, `experiment_id IN (${ids})`)}) AS exported`
      : `${clickhouse.database}.${table.name} AS exported FINAL WHERE exported.experiment_id IN (${ids})`
  const order = [...table.primaryKey, ...table.identity].map((it) => `exported.${it}`)
  const { stream } = await clickhouse.streamExport(
    `SELECT ${selected.map((it, at) => `${it} AS c${at}`).join(', ')} FROM ${from} ORDER BY ${order.join(', ')}
     SETTINGS output_format_json_quote_64bit_integers = 1, output_format_json_escape_forward_slashes = 0
     FORMAT JSONCompactEachRow`,
    { isWhole: false, signal },
  )
  return stream
}

const compress = promisify(zlib.zstdCompress)

/**
 * Stores rows of an archive under the ids that its experiments have here. Storing them again changes nothing.
 *
 * @throws WrongRow when a row is not one of this table; then none is stored
 */
export async function insertLogged(
  clickhouse: ClickHouse,
  name: LoggedTable,
  parts: AsyncIterable<Iterable<unknown>>,
  experimentIds: bigint[],
): Promise<void> {
  const { table, columns } = loggedTables[name]
  const block = createNativeBlock(table) as NativeBlock
  const writers = columns.map((it) => block.columns[it.name as keyof typeof block.columns] as unknown as Writer)
  const compressed: Buffer[] = []
  let at = 0
  for await (const rows of parts) {
    for (const row of rows) add(row, at++)
    if (block.rows >= rowsOfBlock) compressed.push(await compress(block.take()))
  }
  if (block.rows > 0) compressed.push(await compress(block.take()))
  if (compressed.length > 0) await storeBlocks(clickhouse, table, compressed)

  function add(row: unknown, at: number) {
    if (!Array.isArray(row) || row.length !== columns.length)
      throw new WrongRow(at, `must be a list of ${columns.length}`)
    for (const [index, column] of columns.entries()) {
      const read = column.read(row[index], experimentIds.length)
      if (read === undefined) throw new WrongRow(at, `${column.name} is wrong`)
      writers[index]?.push(column === experiment ? (experimentIds[read as number] as bigint) : read)
    }
    block.endRow()
  }
}

/** Memory for rows that are not compressed yet is little, and stays little. */
const rowsOfBlock = 8_192

type Writer = { push(value: number | bigint | string): void }

/** A row that no server can have written. */
export class WrongRow extends Error {
  readonly row: number

  constructor(row: number, message: string) {
    super(message)
    this.row = row
  }
}
