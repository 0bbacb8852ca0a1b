import type { Readable } from 'node:stream'
import type { ClickHouse } from '../connection.ts'
import { brokenRows, outputTable, rowOrder } from './rows.ts'

/** The output of an experiment as the inside of a JSON string. */
export function streamOutput(clickhouse: ClickHouse, experimentId: bigint): Promise<Readable> {
  return clickhouse.stream(
    `SELECT substring(toJSONString(text), 2, length(toJSONString(text)) - 2)
     FROM (SELECT concat(if(needs_end, '\\n', ''), line) AS text, ${rowOrder} FROM (${brokenRows(outputTable(clickhouse))}))
     ORDER BY ${rowOrder} FORMAT RawBLOB`,
    { experiment: String(experimentId) },
  )
}
