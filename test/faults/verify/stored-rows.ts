import { text as readText } from 'node:stream/consumers'
import { parseExactJson } from '../../../http/body/exact-json.ts'
import type { ClickHouse } from '../../../store/clickhouse/connection.ts'
import { chunksTable, selectPointRows } from '../../../store/clickhouse/points/chunks.ts'
import { outputLinesTable, pointsTable, present, systemPointsTable } from '../../../store/clickhouse/points/tables.ts'
import { sizeOf } from '../../../store/clickhouse/row-counts.ts'
import { eventually } from '../../kit/eventually.ts'
import type { ReadPoint } from '../../kit/http/client.ts'
import type { Experiment } from '../cluster/cluster.ts'
import { lineText, pointText } from './rows.ts'

/** Reads the stored rows as text, over HTTP and from ClickHouse itself. */
type Http = { apiUrl: string; apiKey: string }

export async function readPointsOverHttp(http: Http, experimentKey: string, metricName: string): Promise<string[]> {
  const query = new URLSearchParams({ experimentKey, metricName })
  const { metrics } = (await get(http, `/experiment/metrics/get-metric?${query}`)) as { metrics: ReadPoint[] }
  return metrics.map((it) =>
    pointText({
      metric: it.metricName,
      context: it.runContext ?? '',
      step: it.step,
      epoch: it.epoch,
      timestamp: it.timestamp,
      value: Number(it.metricValue),
    }),
  )
}

export async function readOutputOverHttp(http: Http, experimentKey: string): Promise<string[]> {
  const { output } = (await get(http, `/experiment/output?${new URLSearchParams({ experimentKey })}`)) as {
    output: string
  }
  return output === '' ? [] : output.split('\n')
}

/** The names under which metrics stand in the summary of an experiment, which is kept apart from its points. */
export async function readSummaryOverHttp(http: Http, experimentKey: string): Promise<string[]> {
  const query = new URLSearchParams({ experimentKey })
  const { values } = (await get(http, `/experiment/metrics/summary?${query}`)) as { values: { name: string }[] }
  return values.map((it) => it.name)
}

function get({ apiUrl, apiKey }: Http, path: string): Promise<unknown> {
  return eventually(async () => {
    const answer = await fetch(`${apiUrl}/api/rest/v2${path}`, { headers: { authorization: apiKey } })
    const text = await answer.text()
    if (!answer.ok) throw new Error(`${path} answered ${answer.status}: ${text}`)
    return parseExactJson(text)
  })
}

const when = (bit: number, column: string) => `if(bitAnd(present, ${bit}) != 0, toString(${column}), NULL)`

/** Every point and resource usage of an experiment, with the bits of each value. */
export async function readStoredPoints(clickhouse: ClickHouse, { id }: Experiment): Promise<string[]> {
  const ofIt = 'experiment_id = {id:UInt64}'
  const columns = 'metric, context, step, epoch, timestamp, present, value_bits'
  const tables = [
    `SELECT ${columns} FROM (${selectPointRows(clickhouse, ofIt)})`,
    `SELECT ${columns} FROM ${clickhouse.database}.${systemPointsTable.name} FINAL WHERE ${ofIt}`,
  ]
  const rows = await readRows<[string, string, string | null, string | null, string | null, string]>(
    clickhouse,
    `SELECT metric, context, ${when(present.step, 'step')}, ${when(present.epoch, 'epoch')},
       ${when(present.timestamp, 'timestamp')}, toString(value_bits) FROM (${tables.join(' UNION ALL ')})`,
    id,
  )
  return rows.map(([metric, context, step, epoch, timestamp, bits]) =>
    pointText({
      metric,
      context,
      step: step === null ? null : BigInt(step),
      epoch: epoch === null ? null : BigInt(epoch),
      timestamp: Number(timestamp),
      value: toValue(BigInt(bits)),
    }),
  )
}

/** Every line of output of an experiment. */
export async function readStoredLines(clickhouse: ClickHouse, { id }: Experiment): Promise<string[]> {
  const rows = await readRows<[string, string, string, number, string]>(
    clickhouse,
    `SELECT context, toString(offset), toString(timestamp), stderr, line
     FROM ${clickhouse.database}.${outputLinesTable.name} FINAL WHERE experiment_id = {id:UInt64}`,
    id,
  )
  return rows.map(([context, offset, timestamp, stderr, line]) =>
    lineText({ context, offset: Number(offset), timestamp: Number(timestamp), stderr: stderr === 1, line }),
  )
}

/** Counts the rows of all tables. A row that was delivered twice counts twice until it is merged. */
export async function countInserted(clickhouse: ClickHouse): Promise<number> {
  const counts = [pointsTable, chunksTable, systemPointsTable, outputLinesTable].map(
    (it) => `(SELECT sum(${sizeOf(it)}) FROM ${clickhouse.database}.${it.name})`,
  )
  const rows = await clickhouse.rows<{ rows: string }>(`SELECT ${counts.join(' + ')} AS rows`)
  return Number(rows[0]?.rows)
}

async function readRows<Row>(clickhouse: ClickHouse, query: string, id: string): Promise<Row[]> {
  const answer = await readText(await clickhouse.stream(`${query} FORMAT JSONCompactEachRow`, { id }))
  return answer
    .split('\n')
    .filter(Boolean)
    .map((it) => JSON.parse(it) as Row)
}

const bitsOfNaN = 0x7ff8_0000_0000_0000n

function toValue(bits: bigint): number {
  const view = new DataView(new ArrayBuffer(8))
  view.setBigUint64(0, bits)
  const value = view.getFloat64(0)
  // Another NaN than the one that is written: shown as a value that nobody sent.
  return Number.isNaN(value) && bits !== bitsOfNaN ? Number(bits) : value
}
