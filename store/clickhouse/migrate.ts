import type { ClickHouse } from './connection.ts'
import { copyEarlierPoints, listEarlierPoints, renameEarlierPoints } from './earlier-points.ts'
import { rollupFeaturesTable, rollupsTable, rollupValuesTable } from './rollup-tables.ts'
import { createStatements, streamTables } from './tables.ts'

/**
 * Brings ClickHouse to the tables this version needs. Safe to repeat; two at once only on tables of this version.
 *
 * @param say is told of the progress of what takes long
 */
export async function migrateClickHouse(clickhouse: ClickHouse, say: (text: string) => void = () => {}): Promise<void> {
  await renameEarlierPoints(clickhouse)
  for (const statement of createStatements({ database: clickhouse.database })) await clickhouse.command(statement)
  await copyEarlierPoints(clickhouse, say)
}

/**
 * Resolves when all tables are there and make one row of what is delivered twice.
 *
 * @throws Error that says what to do
 */
export async function checkClickHouse(clickhouse: ClickHouse): Promise<void> {
  const rows = await clickhouse.rows<{ name: string; engine: string; sorting_key: string }>(
    'SELECT name, engine, sorting_key FROM system.tables WHERE database = {database:String}',
    { database: clickhouse.database },
  )
  const found = new Map(rows.map((it) => [it.name, it]))
  const [earlier] = await listEarlierPoints(clickhouse)
  if (earlier) {
    throw new Error(`Rows of ${clickhouse.database}.${earlier} are not in their new form yet: run "svc migrate" first.`)
  }
  for (const { name, primaryKey, identity } of streamTables) {
    const table = found.get(name)
    if (table === undefined) {
      throw new Error(`ClickHouse has no table ${clickhouse.database}.${name}: run "svc migrate" first.`)
    }
    const sortingKey = [...primaryKey, ...identity].join(', ')
    if (!table.engine.endsWith('ReplacingMergeTree') || table.sorting_key !== sortingKey) {
      throw new Error(
        `The ClickHouse table ${clickhouse.database}.${name} would keep a repeated insert twice: its engine is ` +
          `${table.engine} ORDER BY (${table.sorting_key}). Rename it, run "svc migrate", which makes a ` +
          `ReplacingMergeTree ORDER BY (${sortingKey}), and copy the rows over.`,
      )
    }
  }
  for (const name of [rollupsTable, rollupValuesTable, rollupFeaturesTable]) {
    if (!found.has(name))
      throw new Error(`ClickHouse has no table ${clickhouse.database}.${name}: run "svc migrate" first.`)
  }
}
