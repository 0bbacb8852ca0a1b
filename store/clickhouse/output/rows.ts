import type { ClickHouse } from '../connection.ts'
import { timeOf } from '../points/reads.ts'
import { outputLinesTable } from '../points/tables.ts'

/**
 * How rows of output make a text. They are ordered by their local time, then by offset, then as they arrived, each on a line
 * of its own. A writer that sends line ends may send a line in pieces: between those comes none, and an empty piece is none. What goes to the same stream
 * in the same context counts as one writer.
 */
export const rowOrder = 'time, offset, received, request_hi, request_lo, place'

export const outputTable = (clickhouse: ClickHouse) => `${clickhouse.database}.${outputLinesTable.name}`

export const isEnded = `endsWith(line, '\\n')`

/** The rows of an experiment, in any order. */
export const rowsOf = (table: string) =>
  `SELECT *, ${timeOf} AS time FROM ${table} FINAL WHERE experiment_id = {experiment:UInt64}`

/** The rows of an experiment, in any order; `needs_end` says that a line end goes before the row. */
export function brokenRows(table: string): string {
  const before = (value: string, none: string) => `lagInFrame(${value}, 1, ${none}) OVER (ORDER BY ${rowOrder})`
  return `WITH (SELECT groupUniqArray((toString(context), stderr)) FROM ${table}
      WHERE experiment_id = {experiment:UInt64} AND ${isEnded}) AS ending_writers
    SELECT *, NOT (${before('is_ended', '1')} OR writer = ${before('writer', 'writer')} AND has(ending_writers, writer)) AS needs_end
    FROM (SELECT *, ${isEnded} AS is_ended, (toString(context), stderr) AS writer FROM (${rowsOf(table)}))
    WHERE line != '' OR NOT has(ending_writers, writer)`
}
