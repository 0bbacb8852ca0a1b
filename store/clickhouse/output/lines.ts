import type { ClickHouse } from '../connection.ts'
import { brokenRows, isEnded, outputTable, rowOrder, rowsOf } from './rows.ts'

/** A line of the whole text that `streamOutput` answers. */
export type Line = {
  /** From 0, in the whole output. */
  number: number
  output: string
  stderr: boolean
  /** When its first piece was written: ms since the Unix epoch. */
  timestamp: number
  context: string
}

/** Which lines; what is set must hold. */
export type LineFilter = {
  stderr?: boolean | undefined
  /** A part of the line, ignoring case and colours. */
  search?: string | undefined
}

/** Forward: the line `from` and those after it. Backward: those before it. The first `skip` of them are passed over. */
type Range = { from?: number | undefined; isBackward: boolean; skip: number; limit: number }

/** A line may have a million characters, and thousands of them would not fit into a page. */
const pageBytesMax = 16 * 1024 ** 2

type Row = { number: string; output: string; stderr: number; time: string; context: string; onPage: string }

/**
 * Lines of `pageBytesMax` bytes at most, or one: a page of long ones has fewer than `limit`.
 *
 * @returns lines in ascending order, how many there are, how many pass the filter, and whether more lie behind these
 */
export async function readLines(
  clickhouse: ClickHouse,
  experimentId: bigint,
  filter: LineFilter,
  { from, isBackward, skip, limit }: Range,
): Promise<{ lines: Line[]; total: number; found: number; hasMore: boolean }> {
  const table = outputTable(clickhouse)
  const params = { experiment: experimentId, ...toParams(filter) }
  const count = async (lines: string) =>
    Number((await clickhouse.rows<{ total: string }>(`SELECT count() AS total FROM (${lines})`, params))[0]?.total)

  const [shape] = await clickhouse.rows<{ total: string; isWhole: number }>(shapeOf(table), params)
  const isWhole = shape?.isWhole === 1
  const isFiltered = filter.stderr !== undefined || filter.search !== undefined
  const total = isWhole ? Number(shape.total) : await count(joinedLines(table, {}))
  const [least, most] = isBackward ? [0, Math.min(from ?? total, total)] : [from ?? 0, total]

  if (isWhole && !isFiltered) {
    const first = Math.max(isBackward ? most - skip - limit : Math.min(least + skip, most), 0)
    const end = Math.max(isBackward ? most - skip : Math.min(first + limit, most), first)
    const range = wholeRange(table, { first, end, total })
    const rows = end === first ? [] : await clickhouse.rows<Row>(withinBytes(range, isBackward), params)
    const hasMore = rows.length < end - first || (isBackward ? first > 0 : end < most)
    return { lines: toLines(rows, isBackward), total, found: total, hasMore }
  }
  const lines = isWhole ? wholeLines(table, filter) : joinedLines(table, filter)
  const range = `SELECT * FROM (SELECT *, count() OVER () AS found FROM (${lines}))
    WHERE number >= {least:UInt64} AND number < {most:UInt64}
    ORDER BY number ${isBackward ? 'DESC' : 'ASC'} LIMIT {skip:UInt64}, {rows:UInt64}`
  const rows = await clickhouse.rows<Row & { found: string }>(withinBytes(range, isBackward), {
    ...params,
    least,
    most,
    skip,
    rows: limit + 1,
  })
  const found = rows[0] ? Number(rows[0].found) : isFiltered ? await count(lines) : total
  const page = rows.slice(0, limit)
  return { lines: toLines(page, isBackward), total, found, hasMore: Number(rows[0]?.onPage ?? 0) > page.length }
}

/** Of the lines of a page those whose texts are not too long together, beginning where it begins; always the first one. */
function withinBytes(page: string, isBackward: boolean): string {
  const order = `ORDER BY number ${isBackward ? 'DESC' : 'ASC'}`
  return `SELECT * EXCEPT bytes_before FROM (
      SELECT *, sum(length(output)) OVER (${order} ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) - length(output) AS bytes_before,
        count() OVER () AS onPage
      FROM (${page}))
    WHERE bytes_before < ${pageBytesMax} ${order}`
}

/**
 * Those of some experiments that may have such a line: all that have one, and those whose lines are sent in pieces, for the
 * words may lie across two.
 */
export async function findOutput(
  clickhouse: ClickHouse,
  experimentIds: bigint[],
  filter: LineFilter,
): Promise<Set<bigint>> {
  const rows = await clickhouse.rows<{ id: string }>(
    `SELECT experiment_id AS id FROM (
       SELECT experiment_id, max(${passes('line', filter)}) AS has_it, min(${isEnded}) != max(${isEnded}) AS is_in_pieces
       FROM ${outputTable(clickhouse)} WHERE experiment_id IN {ids:Array(UInt64)}
       GROUP BY experiment_id, context, stderr)
     GROUP BY experiment_id HAVING max(has_it) OR max(is_in_pieces)`,
    { ids: experimentIds, ...toParams(filter) },
  )
  return new Set(rows.map((it) => BigInt(it.id)))
}

const toParams = ({ stderr, search }: LineFilter) => ({ stderr: Number(stderr ?? false), search: search ?? '' })

function passes(line: string, { stderr, search }: LineFilter): string {
  const startOfCodes = `'\\x1b'`
  const plain = `if(position(${line}, ${startOfCodes}) = 0, ${line}, replaceRegexpAll(${line}, '\\x1b\\\\[[0-9;:<=>?]*[ -/]*[@-~]', ''))`
  const tests = [
    ...(stderr === undefined ? [] : ['stderr = {stderr:UInt8}']),
    ...(search === undefined ? [] : [`positionCaseInsensitiveUTF8(${plain}, {search:String}) > 0`]),
  ]
  return tests.length === 0 ? '1' : `(${tests.join(' AND ')})`
}

const lineEnds = `countSubstrings(line, '\\n')`
const withoutEnd = `if(${isEnded}, substring(line, 1, length(line) - 1), line)`

/** How many rows there are, and whether each is one line: without a line end within, its writer ends all of them or none. */
const shapeOf = (table: string) =>
  `SELECT sum(rows) AS total, min(is_whole) AS isWhole FROM (
     SELECT count() AS rows, min(${isEnded}) = max(${isEnded}) AND min(${lineEnds} = ${isEnded}) AS is_whole
     FROM (${rowsOf(table)}) GROUP BY context, stderr)`

/** Rows that are lines, by their places; sorted from the nearer end, because only so much of them is kept. */
function wholeRange(table: string, { first, end, total }: { first: number; end: number; total: number }): string {
  const isNearStart = first < total - end
  const order = isNearStart ? rowOrder : rowOrder.replaceAll(/\w+/g, '$& DESC')
  return `SELECT ${first} + row_number() OVER (ORDER BY ${rowOrder}) - 1 AS number, ${withoutEnd} AS output, stderr, time, context
    FROM (${rowsOf(table)} ORDER BY ${order} LIMIT ${isNearStart ? first : total - end}, ${end - first})`
}

/** Rows that are lines. Only the text of those that pass is kept while they are put in order. */
function wholeLines(table: string, filter: LineFilter): string {
  return `SELECT number, output, stderr, time, context FROM (
    SELECT row_number() OVER (ORDER BY ${rowOrder}) - 1 AS number, has_it, output, stderr, time, context FROM (
      SELECT ${passes('line', filter)} AS has_it, if(has_it, ${withoutEnd}, '') AS output, stderr, context, ${rowOrder}
      FROM (${rowsOf(table)})))
    WHERE has_it`
}

/** Lines of rows that are pieces of lines, or several of them. */
function joinedLines(table: string, filter: LineFilter): string {
  const until = (value: string) =>
    `sum(${value}) OVER (ORDER BY ${rowOrder} ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)`
  return `SELECT number, any(of_stream) AS stderr, min(at) AS time, any(of_context) AS context,
      arrayStringConcat(arrayMap(it -> it.2, arraySort(groupArray((row, piece))))) AS output
    FROM (
      SELECT first + place_in_row - 1 AS number, row, piece, stderr AS of_stream, time AS at, context AS of_context FROM (
        SELECT row_number() OVER (ORDER BY ${rowOrder}) AS row, ${until('needs_end')} + ${until('line_ends')} - line_ends AS first,
          splitByChar('\\n', ${withoutEnd}) AS pieces, stderr, time, context
        FROM (SELECT *, ${lineEnds} AS line_ends FROM (${brokenRows(table)})))
      ARRAY JOIN pieces AS piece, arrayEnumerate(pieces) AS place_in_row)
    GROUP BY number HAVING ${passes('output', filter)}`
}

const toLines = (rows: Row[], isBackward: boolean) => (isBackward ? rows.toReversed() : rows).map(toLine)

const toLine = ({ number, output, stderr, time, context }: Row): Line => ({
  number: Number(number),
  output,
  stderr: stderr === 1,
  timestamp: Number(time),
  context,
})
