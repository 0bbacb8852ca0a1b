import { readFileSync } from 'node:fs'
import { afterAll, beforeAll, expect, inject, it } from 'vitest'
import { createClosers } from '../../../runtime/closers.ts'
import { type ClickHouse, openClickHouse } from '../../../store/clickhouse/connection.ts'
import { tablesNotBackedUp } from '../../../store/clickhouse/derived-tables.ts'
import { checkClickHouse } from '../../../store/clickhouse/migrations/check.ts'
import { migrateClickHouse, migrations } from '../../../store/clickhouse/migrations/migrate.ts'
import { summaryViews } from '../../../store/clickhouse/points/summaries/summary.ts'
import { uniqueName } from '../../kit/service.ts'

/**
 * Every earlier schema of ClickHouse, with rows, is brought to the newest: it holds what a new installation holds that was
 * given the same rows, and is defined alike. Schemas with float values: `migrations.test.ts` and `earlier-points.test.ts`.
 *
 * `earlier-tables.json` has the tables and views that each migration adds or changes, as `create_table_query` tells them, in
 * a database `svc`. Those of the past are never changed: the versions that made them wrote them.
 */
const changes: Record<string, Record<string, string>> = JSON.parse(
  readFileSync(new URL('earlier-tables.json', import.meta.url), 'utf8'),
)
const earlier = migrations.map((it) => it.name).slice(1)

const closers = createClosers()
afterAll(() => closers.closeAll())

async function openDatabase(): Promise<ClickHouse> {
  const url = new URL(inject('stores').clickhouseUrl)
  url.pathname = `/${uniqueName('earlier').replaceAll('-', '_')}`
  const clickhouse = openClickHouse({ url: url.href })
  closers.push(async () => {
    await clickhouse.command(`DROP DATABASE IF EXISTS ${clickhouse.database} SYNC`)
    await clickhouse.close()
  })
  return clickhouse
}

/** The definitions of the tables and views after a migration. */
function toTables(last: string): Record<string, string> {
  const upTo = Object.keys(changes).filter((it) => it <= last)
  return Object.assign({}, ...upTo.map((it) => changes[it]))
}

/** A database as the version left it whose last migration this was. */
async function openEarlier(last: string): Promise<ClickHouse> {
  const clickhouse = await openDatabase()
  const { database } = clickhouse
  await clickhouse.command(`CREATE DATABASE ${database}`)
  // Tables first: views read from them.
  const definitions = Object.values(toTables(last)).toSorted(
    (a, b) => Number(a.includes(' VIEW ')) - Number(b.includes(' VIEW ')),
  )
  for (const it of definitions) await clickhouse.command(it.replaceAll('svc.', `${database}.`))
  await clickhouse.command(
    `CREATE TABLE ${database}.svc_migrations (name String, server String, applied_at DateTime('UTC') DEFAULT now())
     ENGINE = ReplacingMergeTree ORDER BY (name, server)`,
  )
  const records = migrations.filter((it) => it.name <= last).map((it) => `('${it.name}', '')`)
  await clickhouse.command(`INSERT INTO ${database}.svc_migrations (name, server) VALUES ${records}`)
  return clickhouse
}

type Column = { name: string; type: string }

/** The stored columns of each table that is written to. */
async function listColumns({ database, rows }: ClickHouse): Promise<Map<string, Column[]>> {
  const columns = await rows<Column & { table: string }>(
    `SELECT table, c.name AS name, type FROM system.columns c JOIN system.tables t ON t.database = c.database AND t.name = table
     WHERE c.database = {database:String} AND engine LIKE '%MergeTree' AND default_kind IN ('', 'DEFAULT') ORDER BY table, position`,
    { database },
  )
  return Map.groupBy(
    columns.filter((it) => !tablesNotBackedUp.includes(it.table)),
    (it) => it.table,
  )
}

/** Writes the same rows wherever it is called, twice, as repeated deliveries do. */
async function fill({ database, command }: ClickHouse, tables: Map<string, Column[]>) {
  for (const [table, columns] of tables) {
    const structure = columns.map((it) => `${it.name} ${it.type}`).join(', ')
    const names = columns.map((it) => it.name)
    for (let time = 0; time < 2; time++) {
      await command(
        `INSERT INTO ${database}.${table} (${names}) SELECT ${names} FROM generateRandom('${structure}', 7, 8, 2) LIMIT 40`,
      )
    }
  }
}

/** All that the tables hold, rows that were delivered twice once. */
async function readAll({ database, rows }: ClickHouse): Promise<Record<string, unknown[]>> {
  const tables = await rows<{ name: string; engine: string }>(
    `SELECT name, engine FROM system.tables WHERE database = {database:String} AND engine LIKE '%MergeTree'
     AND name != 'svc_migrations' ORDER BY name`,
    { database },
  )
  const all: Record<string, unknown[]> = {}
  for (const { name, engine } of tables) {
    all[name] = await rows(
      `SELECT toString(tuple(COLUMNS('.*'))) AS row FROM ${database}.${name}${engine === 'MergeTree' ? '' : ' FINAL'} ORDER BY row
       SETTINGS asterisk_include_materialized_columns = 1`,
    )
  }
  return all
}

async function readDefinitions({ database, rows }: ClickHouse): Promise<Record<string, string>> {
  const tables = await rows<{ name: string; definition: string }>(
    `SELECT name, create_table_query AS definition FROM system.tables WHERE database = {database:String}
     AND name != 'svc_migrations' ORDER BY name`,
    { database },
  )
  return Object.fromEntries(tables.map((it) => [it.name, it.definition.replaceAll(`${database}.`, 'svc.')]))
}

let definitions: Record<string, string>
beforeAll(async () => {
  const fresh = await openDatabase()
  await migrateClickHouse(fresh)
  definitions = await readDefinitions(fresh)
}, 120_000)

const freshRows = new Map<string, Promise<Record<string, unknown[]>>>()

/** What a database that had them keeps until workers of earlier versions are gone. A new one has none. */
const keptViews = Object.fromEntries(
  Object.entries(toTables(earlier.at(-1) as string)).filter(([name]) => summaryViews.some((it) => it === name)),
)

/** What a new installation holds that was given rows with these columns, by workers of earlier versions. */
function readFresh(columns: Map<string, Column[]>): Promise<Record<string, unknown[]>> {
  const key = JSON.stringify([...columns])
  const known = freshRows.get(key)
  if (known) return known
  const read = (async () => {
    const fresh = await openDatabase()
    await migrateClickHouse(fresh)
    for (const it of Object.values(keptViews)) await fresh.command(it.replaceAll('svc.', `${fresh.database}.`))
    await fill(fresh, columns)
    return await readAll(fresh)
  })()
  freshRows.set(key, read)
  return read
}

it('the tables of every migration stand in earlier-tables.json', () => {
  expect(Object.keys(changes)).toEqual(migrations.map((it) => it.name))
  expect(Object.keys(keptViews)).toHaveLength(2)
  expect(Object.keys(toTables(earlier.at(-1) as string)).toSorted()).toEqual(
    Object.keys({ ...definitions, ...keptViews }).toSorted(),
  )
})

it.each(earlier)('%s with its rows becomes the newest schema', { timeout: 120_000 }, async (last) => {
  const clickhouse = await openEarlier(last)
  const columns = await listColumns(clickhouse)
  await fill(clickhouse, columns)

  await migrateClickHouse(clickhouse)

  await checkClickHouse(clickhouse)
  expect(await readDefinitions(clickhouse)).toEqual({ ...definitions, ...keptViews })
  const rows = await readAll(clickhouse)
  expect(rows).toEqual(await readFresh(columns))
  for (const table of columns.keys()) expect(rows[table], table).toHaveLength(40)
  for (const derived of ['points_summary', 'points_by_metric', 'event_features']) {
    expect(rows[derived]?.length, derived).toBeGreaterThan(0)
  }
})
