import type { Readable } from 'node:stream'
import type { ClickHouse } from '../connection.ts'
import { outputLinesTable, present } from '../points/tables.ts'

/**
 * The output of an experiment as the inside of a JSON string: lines ordered by offset, then by time, one per line. A line
 * that ends in a newline gets no second one.
 */
export function streamOutput(clickhouse: ClickHouse, experimentId: bigint): Promise<Readable> {
  const order = 'ORDER BY offset, time, request_hi, request_lo, place'
  return clickhouse.stream(
    `SELECT substring(toJSONString(text), 2, length(toJSONString(text)) - 2) FROM (
       SELECT concat(if(endsWith(lagInFrame(line, 1, '\\n') OVER (${order}), '\\n'), '', '\\n'), line) AS text,
         offset, time, request_hi, request_lo, place
       FROM (SELECT *, if(bitAnd(present, ${present.timestamp}) != 0, timestamp, received) AS time
         FROM ${clickhouse.database}.${outputLinesTable.name} FINAL WHERE experiment_id = {experiment:UInt64}))
     ${order} FORMAT RawBLOB`,
    { experiment: String(experimentId) },
  )
}
