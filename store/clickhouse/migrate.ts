import type { ClickHouse } from './connection.ts'
import { createStatements, streamTables } from './tables.ts'

/** Brings ClickHouse to the tables this version needs. Safe to repeat, and to run twice at once. */
export async function migrateClickHouse(clickhouse: ClickHouse): Promise<void> {
  for (const statement of createStatements({ database: clickhouse.database })) await clickhouse.command(statement)
}

/**
 * Resolves when all tables are there with a deduplication window.
 *
 * @throws Error that says what to do
 */
export async function checkClickHouse(clickhouse: ClickHouse): Promise<void> {
  const rows = await clickhouse.rows<{ name: string; engine_full: string }>(
    'SELECT name, engine_full FROM system.tables WHERE database = {database:String}',
    { database: clickhouse.database },
  )
  const found = new Map(rows.map((it) => [it.name, it.engine_full]))
  for (const { name } of streamTables) {
    const engine = found.get(name)
    if (engine === undefined) {
      throw new Error(`ClickHouse has no table ${clickhouse.database}.${name}: run "svc migrate" first.`)
    }
    if (!/deduplication_window = [1-9]/.test(engine) && !engine.startsWith('Replicated')) {
      throw new Error(
        `The ClickHouse table ${clickhouse.database}.${name} has no deduplication window, so a retried insert could be ` +
          `stored twice: ALTER TABLE ${clickhouse.database}.${name} MODIFY SETTING non_replicated_deduplication_window = 1000`,
      )
    }
  }
}
