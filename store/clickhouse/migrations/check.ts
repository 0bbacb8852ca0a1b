import { checkCluster, checkLayout } from '../cluster/check.ts'
import { fromLocal, systemTable, toLocal } from '../cluster/layout.ts'
import type { ClickHouse } from '../connection.ts'
import { rollupTables } from '../monitoring/rollups/tables.ts'
import { streamTables } from '../tables.ts'
import { migrations, migrationsTable } from './migrate.ts'

type FoundTable = { shard: number; name: string; engine: string; sorting_key: string }

/**
 * Resolves when the tables exist, collapse rows that are delivered twice, and every migration of this version is done. Of a
 * cluster, only the shards that answer are looked at: one that is down does not keep a process from starting.
 *
 * @throws Error that says what to do
 */
export async function checkClickHouse(clickhouse: ClickHouse): Promise<void> {
  await checkCluster(clickhouse)
  await checkLayout(clickhouse)
  const isCluster = clickhouse.cluster !== undefined
  const tables = await clickhouse.rows<FoundTable>(
    `SELECT ${isCluster ? '_shard_num' : '0'} AS shard, name, engine, sorting_key FROM ${systemTable(clickhouse, 'tables')}
     WHERE database = {database:String}${isCluster ? ' SETTINGS skip_unavailable_shards = 1' : ''}`,
    { database: clickhouse.database },
  )
  const shards = Map.groupBy(tables, (it) => it.shard)
  // There are none before the first migration.
  for (const its of shards.size === 0 ? [[]] : shards.values()) checkTables(clickhouse, its)
  await checkMigrations(clickhouse)
}

function checkTables(clickhouse: ClickHouse, tables: FoundTable[]): void {
  const { database } = clickhouse
  const byName = new Map(tables.map((it) => [it.name, it]))
  const find = (name: string) => {
    const table = byName.get(name)
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

/** Migrations of a later version do no harm: processes may be rolled back. */
async function checkMigrations({ database, rows }: ClickHouse): Promise<void> {
  const [table] = await rows(
    'SELECT 1 FROM system.tables WHERE database = {database:String} AND name = {migrationsTable:String}',
    { database, migrationsTable },
  )
  const applied = table ? await rows<{ name: string }>(`SELECT DISTINCT name FROM ${database}.${migrationsTable}`) : []
  const names = new Set(applied.map((it) => it.name))
  const missing = migrations.filter((it) => !names.has(it.name)).map((it) => it.name)
  if (missing.length > 0) {
    throw new Error(`ClickHouse is on an older schema (missing: ${missing.join(', ')}): run "svc migrate" first.`)
  }
}
