import type { Readable } from 'node:stream'
import type { ClickHouse } from '../connection.ts'
import { outputLinesTable, present } from '../points/tables.ts'

/**
 * The output of an experiment as the inside of a JSON string: lines ordered by their local time, then by offset, then as they
 * arrived, each on a line of its own. A writer that sends newlines may send a line in pieces: between those comes none. What
 * goes to the same stream in the same context counts as one writer.
 */
export function streamOutput(clickhouse: ClickHouse, experimentId: bigint): Promise<Readable> {
  const order = 'ORDER BY time, offset, received, request_hi, request_lo, place'
  const table = `${clickhouse.database}.${outputLinesTable.name}`
  const before = (value: string, none: string) => `lagInFrame(${value}, 1, ${none}) OVER (${order})`
  return clickhouse.stream(
    `WITH (SELECT groupUniqArray((toString(context), stderr)) FROM ${table}
       WHERE experiment_id = {experiment:UInt64} AND endsWith(line, '\\n')) AS newlineWriters
     SELECT substring(toJSONString(text), 2, length(toJSONString(text)) - 2) FROM (
       SELECT concat(if(endsWith(${before('line', "'\\n'")}, '\\n')
           OR writer = ${before('writer', 'writer')} AND has(newlineWriters, writer), '', '\\n'), line) AS text,
         time, offset, received, request_hi, request_lo, place
       FROM (SELECT *, (toString(context), stderr) AS writer,
           if(bitAnd(present, ${present.timestamp}) != 0, timestamp, received) AS time
         FROM ${table} FINAL WHERE experiment_id = {experiment:UInt64}))
     ${order} FORMAT RawBLOB`,
    { experiment: String(experimentId) },
  )
}
