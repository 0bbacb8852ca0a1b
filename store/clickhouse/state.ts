import { systemTable } from './cluster/layout.ts'
import type { ClickHouse } from './connection.ts'

/** The health of ClickHouse, for operators. In a cluster: one replica of each shard. */
export type ClickHouseState = {
  version: string
  tables: { table: string; parts: number; partsOfPartitionMax: number; bytes: number; rows: number }[]
  disks: { disk: string; freeBytes: number; totalBytes: number }[]
  /** Unfinished mutations, and how many of them failed at least once. */
  mutations: { waiting: number; failing: number; failReason: string }
  /** Running merges, and the age of the oldest. */
  merges: { running: number; oldestSeconds: number }
  /** Replicated tables only: how many are read-only, the queue of fetches and merges, and the largest delay. */
  replicas: { readOnly: number; queued: number; delaySeconds: number }
  /** ClickHouse throttles inserts above this number of parts in a partition. */
  partsSlowAt: number
  nowMs: number
}

/** Disks on object stores report a size near 2^64. */
const endlessBytes = 1e18

const numbers = <Row extends Record<string, unknown>>(rows: Row[]) =>
  rows.map((row) =>
    Object.fromEntries(
      Object.entries(row).map(([name, value]) => [
        name,
        typeof value === 'string' && /^-?\d+(\.\d+)?$/.test(value) ? Number(value) : value,
      ]),
    ),
  ) as unknown[]

export async function readClickHouseState(clickhouse: ClickHouse): Promise<ClickHouseState> {
  const { database } = clickhouse
  const onlyServer = clickhouse.cluster === undefined
  const of = (table: string) => systemTable(clickhouse, table)
  const ask = async (query: string) => numbers(await clickhouse.rows<Record<string, unknown>>(query, { database }))
  const [tables, disks, [mutations], [merges], [replicas], [server]] = await Promise.all([
    ask(
      `SELECT table, sum(parts_of) AS parts, max(parts_of) AS partsOfPartitionMax, sum(bytes_of) AS bytes,
         sum(rows_of) AS rows
       FROM (SELECT hostName() AS host, table, partition_id, count() AS parts_of, sum(bytes_on_disk) AS bytes_of, sum(rows) AS rows_of
         FROM ${of('parts')} WHERE active AND database = {database:String} GROUP BY host, table, partition_id)
       GROUP BY table ORDER BY table`,
    ),
    ask(
      `SELECT ${onlyServer ? 'name' : "concat(hostName(), ' ', name)"} AS disk, free_space AS freeBytes, total_space AS totalBytes
       FROM ${of('disks')}
       WHERE total_space > 0 AND total_space < ${endlessBytes}`,
    ),
    ask(
      `SELECT count() AS waiting, countIf(latest_fail_reason != '') AS failing,
         any(latest_fail_reason) AS failReason
       FROM ${of('mutations')} WHERE NOT is_done AND database = {database:String}`,
    ),
    ask(
      `SELECT count() AS running, max(elapsed) AS oldestSeconds FROM ${of('merges')}
       WHERE database = {database:String}`,
    ),
    ask(
      `SELECT countIf(is_readonly) AS readOnly, sum(queue_size) AS queued, max(absolute_delay) AS delaySeconds
       FROM ${of('replicas')} WHERE database = {database:String}`,
    ),
    ask(
      `SELECT version() AS version, toUnixTimestamp64Milli(now64(3)) AS nowMs,
         (SELECT toUInt64(value) FROM system.merge_tree_settings WHERE name = 'parts_to_delay_insert') AS partsSlowAt`,
    ),
  ])
  const { version, nowMs, partsSlowAt } = server as { version: string; nowMs: number; partsSlowAt: number }
  return { tables, disks, mutations, merges, replicas, version: String(version), nowMs, partsSlowAt } as ClickHouseState
}
