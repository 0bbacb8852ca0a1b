import { setTimeout as sleep } from 'node:timers/promises'
import type { ClickHouse } from '../../store/clickhouse/connection.ts'
import { chunksTable } from '../../store/clickhouse/points/chunks.ts'
import { summaryTable } from '../../store/clickhouse/points/summaries/summary.ts'
import { pointsTable } from '../../store/clickhouse/points/tables.ts'
import { sizeOf } from '../../store/clickhouse/row-counts.ts'

const names = [pointsTable.name, chunksTable.name, summaryTable]

/** Counts points in ClickHouse: cheap, and it covers all of them. */
const pollMs = 20
const quietMs = 1_000
const stalledMsMax = 60_000
const mergesMsMax = 15_000

/** Waits until this many rows can be read; rejects if the number does not grow for a minute. */
export async function waitUntilStored(clickhouse: ClickHouse, rowsExpected: number): Promise<void> {
  let rows = -1
  let changedAt = performance.now()
  for (;;) {
    const found = await countRows(clickhouse)
    if (found >= rowsExpected) return
    if (found !== rows) changedAt = performance.now()
    rows = found
    if (performance.now() - changedAt > stalledMsMax) {
      throw new Error(`Only ${rows} of ${rowsExpected} acknowledged points can be read after a minute of waiting.`)
    }
    await sleep(pollMs)
  }
}

/** Waits until the number of rows has not grown for a second: unacknowledged ones may still arrive. */
export async function waitUntilQuiet(clickhouse: ClickHouse): Promise<void> {
  for (let rows = -1; ; ) {
    const found = await countRows(clickhouse)
    if (found === rows) return
    rows = found
    await sleep(quietMs)
  }
}

/** Counts readable rows. Repeated deliveries count again until they are merged. */
async function countRows(clickhouse: ClickHouse): Promise<number> {
  const { database } = clickhouse
  const found = await clickhouse.rows<{ rows: string }>(
    `SELECT (SELECT count() FROM ${database}.${pointsTable.name}) + (SELECT sum(count) FROM ${database}.${chunksTable.name}) AS rows`,
  )
  return Number(found[0]?.rows)
}

/** Distinct points by experiment id. */
export async function countPoints(clickhouse: ClickHouse): Promise<Map<string, number>> {
  const rows = await clickhouse.rows<{ experiment: string; points: string }>(
    `SELECT toString(experiment_id) AS experiment, sum(size) AS points FROM (${tables(clickhouse, 'FINAL')}) GROUP BY experiment_id`,
  )
  return new Map(rows.map((it) => [it.experiment, Number(it.points)]))
}

/** Bytes on disk per point, including the summaries, after the running merges. */
export async function measureBytesPerPoint(clickhouse: ClickHouse): Promise<number> {
  const deadline = performance.now() + mergesMsMax
  while (performance.now() < deadline) {
    const rows = await clickhouse.rows<{ merges: string }>('SELECT count() AS merges FROM system.merges')
    if (rows[0]?.merges === '0') break
    await sleep(100)
  }
  const rows = await clickhouse.rows<{ bytes: string }>(
    `SELECT sum(bytes_on_disk) AS bytes FROM system.parts
     WHERE active AND database = {database:String} AND table IN {names:Array(String)}`,
    { database: clickhouse.database, names },
  )
  return Number(rows[0]?.bytes) / (await countRows(clickhouse))
}

export async function forgetPoints(clickhouse: ClickHouse): Promise<void> {
  for (const name of names) {
    await clickhouse.command(`TRUNCATE TABLE ${clickhouse.database}.${name} SYNC`)
  }
}

/** The experiment of each row or chunk, and how many points it has. */
const tables = ({ database }: ClickHouse, final = '') =>
  [pointsTable, chunksTable]
    .map((it) => `SELECT experiment_id, ${sizeOf(it)} AS size FROM ${database}.${it.name} ${final}`)
    .join(' UNION ALL ')
