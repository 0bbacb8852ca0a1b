import { fromLocal, systemTable, toLocal } from '../cluster/layout.ts'
import type { ClickHouse } from '../connection.ts'
import { rollupTables } from '../monitoring/rollups/tables.ts'
import { summaryTable } from '../points/summary.ts'
import { createStatements, streamTables } from '../tables.ts'
import { copyEarlierPoints, listEarlierPoints, renameEarlierPoints } from './earlier-points.ts'

/**
 * Brings ClickHouse to the tables this version needs. Safe to repeat; two at once only on tables of this version.
 *
 * @param say is told of the progress of what takes long
 * @throws Error that says what to do, when the server is not the cluster it should be
 */
export async function migrateClickHouse(clickhouse: ClickHouse, say: (text: string) => void = () => {}): Promise<void> {
  await checkCluster(clickhouse)
  await checkKind(clickhouse)
  // Versions that had tables of another form knew no clusters.
  if (clickhouse.cluster === undefined) await renameEarlierPoints(clickhouse)
  for (const statement of createStatements(clickhouse)) await clickhouse.command(statement)
  if (clickhouse.cluster === undefined) await copyEarlierPoints(clickhouse, say)
}

/** What must hold of the server's configuration for an insert to be done where it says so. */
async function checkCluster({ cluster, rows }: ClickHouse): Promise<void> {
  if (cluster === undefined) return
  type Node = { cluster: string; shard: number; replicas: number; isReplicated: number }
  const shards = await rows<Node>(
    `SELECT cluster, shard_num AS shard, count() AS replicas, min(internal_replication) AS isReplicated
     FROM system.clusters GROUP BY cluster, shard ORDER BY cluster, shard`,
  )
  const ours = shards.filter((it) => it.cluster === cluster)
  if (ours.length === 0) {
    const known = [...new Set(shards.map((it) => it.cluster))].join(', ') || 'none'
    throw new Error(
      `CLICKHOUSE_CLUSTER is ${cluster}, and the server knows no such cluster in remote_servers: ${known}.`,
    )
  }
  const wrong = ours.find((it) => it.replicas > 1 && !it.isReplicated)
  if (wrong) {
    throw new Error(
      `Shard ${wrong.shard} of the cluster ${cluster} would be written to replica by replica: set ` +
        '<internal_replication>true</internal_replication> for each shard in remote_servers.',
    )
  }
}

/** Tables of a single server do not become those of a cluster by themselves, nor the other way. */
async function checkKind({ cluster, database, rows }: ClickHouse): Promise<void> {
  const [found] = await rows<{ engine: string }>(
    'SELECT engine FROM system.tables WHERE database = {database:String} AND name = {summary:String}',
    { database, summary: summaryTable },
  )
  if (!found || (found.engine === 'Distributed') === (cluster !== undefined)) return
  throw new Error(
    cluster === undefined
      ? `The tables of ${database} are those of a cluster: set CLICKHOUSE_CLUSTER.`
      : `The tables of ${database} are those of a single server. Give CLICKHOUSE_URL a database that is not there yet, run ` +
          '"svc migrate", and copy the rows over (deploy/README.md, "Scaling out").',
  )
}

/**
 * Resolves when all tables are there and make one row of what is delivered twice. Of a cluster, those shards are looked at
 * that answer: one that is away does not keep a process from starting.
 *
 * @throws Error that says what to do
 */
export async function checkClickHouse(clickhouse: ClickHouse): Promise<void> {
  await checkCluster(clickhouse)
  await checkKind(clickhouse)
  type Found = { shard: number; name: string; engine: string; sorting_key: string }
  const isCluster = clickhouse.cluster !== undefined
  const rows = await clickhouse.rows<Found>(
    `SELECT ${isCluster ? '_shard_num' : '0'} AS shard, name, engine, sorting_key FROM ${systemTable(clickhouse, 'tables')}
     WHERE database = {database:String}${isCluster ? ' SETTINGS skip_unavailable_shards = 1' : ''}`,
    { database: clickhouse.database },
  )
  const [earlier] = await listEarlierPoints(clickhouse)
  if (earlier) {
    throw new Error(`Rows of ${clickhouse.database}.${earlier} are not in their new form yet: run "svc migrate" first.`)
  }
  // None at all: before the first migration.
  const shards = Map.groupBy(rows, (it) => it.shard)
  for (const its of shards.size === 0 ? [[]] : shards.values()) checkTables(clickhouse, its)
}

function checkTables(clickhouse: ClickHouse, tables: { name: string; engine: string; sorting_key: string }[]): void {
  const { database } = clickhouse
  const found = new Map(tables.map((it) => [it.name, it]))
  const find = (name: string) => {
    const table = found.get(name)
    if (table === undefined) throw new Error(`ClickHouse has no table ${database}.${name}: run "svc migrate" first.`)
    return table
  }
  for (const { name, primaryKey, identity } of streamTables) {
    const local = toLocal(clickhouse, name)
    const table = find(local)
    const sortingKey = [...primaryKey, ...identity].join(', ')
    if (!table.engine.endsWith('ReplacingMergeTree') || table.sorting_key !== sortingKey) {
      throw new Error(
        `The ClickHouse table ${database}.${local} would keep a repeated insert twice: its engine is ` +
          `${table.engine} ORDER BY (${table.sorting_key}). Rename it, run "svc migrate", which makes a ` +
          `ReplacingMergeTree ORDER BY (${sortingKey}), and copy the rows over.`,
      )
    }
    find(fromLocal(clickhouse, local))
  }
  for (const name of rollupTables) find(name)
}
