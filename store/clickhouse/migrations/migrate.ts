/**
 * Migrations of ClickHouse: numbered files, applied in order, each once. The table `svc_migrations` lists those that are done.
 *
 * To add one:
 * 1. Change the definition in `tables.ts` (or the file that it names). New databases are created from there, by 0002.
 * 2. Write `NNNN-what-it-does.ts` beside this file. It brings the tables of the version before to that definition.
 * 3. Append it to `migrations` below.
 *
 * A migration must be safe to repeat: use IF [NOT] EXISTS, or look before it acts. ClickHouse has no transactions, so a process
 * that is killed between a migration and its record repeats that migration; on a new database it runs after 0002 made the table
 * as it should be; and it runs again when a server joins the cluster. Both ways must end in the same SHOW CREATE TABLE, so a new
 * column goes last in `tables.ts`, where ADD COLUMN puts it. Never change or renumber a migration that was released.
 *
 * Each statement runs on all servers of a cluster (`onCluster`) and on the local tables (`toLocal`), and the Distributed tables
 * follow (`addColumn`). Old workers go on inserting during a migration: name their columns, and drop nothing that they write to.
 *
 * Callers hold a lock in Postgres (`cli/stores.ts`), so that two at once run one after the other: ClickHouse has no locks.
 */
import { checkCluster, checkLayout } from '../cluster/check.ts'
import { onCluster, toSharedEngine } from '../cluster/layout.ts'
import type { ClickHouse } from '../connection.ts'
import { mergeTreeSettings } from '../tables.ts'
import { renameFloatPoints } from './0001-rename-float-points.ts'
import { createAllTables } from './0002-tables.ts'
import { copyFloatPoints } from './0003-copy-float-points.ts'
import { keepDiskSpaceFree } from './0004-free-disk-space.ts'
import { addEventIndexes } from './0005-event-indexes.ts'
import { addSqlViews } from './0006-sql-views.ts'
import { createReceivedIndexes } from './0007-received-indexes.ts'
import { orderByMetric } from './0008-points-by-metric.ts'
import { countValuesOfClaims } from './0009-claim-counts.ts'
import { addPointChunks } from './0010-point-chunks.ts'
import { addValueChunks } from './0011-value-chunks.ts'
import { fsyncMerges } from './0012-fsync-merges.ts'
import { summarizeInWorkers } from './0013-summaries-by-workers.ts'
import { shortenBlocks } from './0014-short-blocks.ts'
import type { Migration } from './migration.ts'

/** The migrations of this version, in their order. */
export const migrations: readonly Migration[] = [
  renameFloatPoints,
  createAllTables,
  copyFloatPoints,
  keepDiskSpaceFree,
  addEventIndexes,
  addSqlViews,
  createReceivedIndexes,
  orderByMetric,
  countValuesOfClaims,
  addPointChunks,
  addValueChunks,
  fsyncMerges,
  summarizeInWorkers,
  shortenBlocks,
]

export const migrationsTable = 'svc_migrations'

/**
 * Applies the migrations that are not recorded as done. Safe to repeat, and goes on where a killed one stopped.
 *
 * @param say prints the progress of long steps
 * @throws Error that says what to do, when the server's configuration does not fit CLICKHOUSE_CLUSTER
 */
export async function migrateClickHouse(clickhouse: ClickHouse, say: (text: string) => void = () => {}): Promise<void> {
  await checkCluster(clickhouse)
  await checkLayout(clickhouse)
  const earlier = await listTables(clickhouse)
  await createMigrationsTable(clickhouse)
  const servers = await listServers(clickhouse)
  const applied = await listApplied(clickhouse)
  for (const { name, up } of migrations) {
    const missing = servers.filter((server) => !applied.get(name)?.has(server))
    if (missing.length === 0) continue
    await up(clickhouse, say, earlier)
    await recordApplied(clickhouse, name, missing)
  }
}

/** The tables and views of any server. */
async function listTables({ cluster, database, rows }: ClickHouse): Promise<Set<string>> {
  const tables = await rows<{ name: string }>(
    `SELECT DISTINCT name FROM ${cluster === undefined ? 'system.tables' : `clusterAllReplicas('${cluster}', system.tables)`}
     WHERE database = {database:String}`,
    { database },
  )
  return new Set(tables.map((it) => it.name))
}

/** On every server of a cluster, with all records: reading them needs no other server. */
async function createMigrationsTable(clickhouse: ClickHouse): Promise<void> {
  const { database } = clickhouse
  await clickhouse.command(`CREATE DATABASE IF NOT EXISTS ${database}${onCluster(clickhouse)}`)
  await clickhouse.command(
    `CREATE TABLE IF NOT EXISTS ${database}.${migrationsTable}${onCluster(clickhouse)} (
      name String, server String, applied_at DateTime('UTC') DEFAULT now()
    ) ENGINE = ${toSharedEngine(clickhouse, migrationsTable, 'ReplacingMergeTree')}
    ORDER BY (name, server) SETTINGS ${mergeTreeSettings(clickhouse)}`,
  )
}

/**
 * The servers that need the tables. A server that joins the cluster, or comes back with an empty disk, has a new id, so
 * it is migrated from the start. A single server is '': its tables and its records come and go together.
 */
async function listServers({ cluster, rows }: ClickHouse): Promise<string[]> {
  if (cluster === undefined) return ['']
  const servers = await rows<{ server: string }>(
    `SELECT concat(hostName(), ':', toString(tcpPort()), ' ', toString(serverUUID())) AS server
     FROM clusterAllReplicas('${cluster}', system.one) ORDER BY server`,
  )
  return servers.map((it) => it.server)
}

async function listApplied({ database, rows }: ClickHouse): Promise<Map<string, Set<string>>> {
  const records = await rows<{ name: string; server: string }>(
    `SELECT DISTINCT name, server FROM ${database}.${migrationsTable}`,
  )
  const byName = Map.groupBy(records, (it) => it.name)
  return new Map([...byName].map(([name, its]) => [name, new Set(its.map((it) => it.server))]))
}

async function recordApplied({ database, command }: ClickHouse, name: string, servers: string[]): Promise<void> {
  const records = servers.map((server) => `('${name}', '${server}')`)
  await command(`INSERT INTO ${database}.${migrationsTable} (name, server) VALUES ${records.join(', ')}`)
}
