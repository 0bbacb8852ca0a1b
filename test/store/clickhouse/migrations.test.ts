import { readdirSync } from 'node:fs'
import pg from 'pg'
import { afterEach, expect, inject, it } from 'vitest'
import { migrateStores } from '../../../cli/stores.ts'
import { createClosers } from '../../../runtime/closers.ts'
import { type ClickHouse, openClickHouse } from '../../../store/clickhouse/connection.ts'
import { checkClickHouse } from '../../../store/clickhouse/migrations/check.ts'
import { migrateClickHouse, migrations } from '../../../store/clickhouse/migrations/migrate.ts'
import { runCommand } from '../../kit/processes/svc.ts'
import { uniqueName } from '../../kit/service.ts'
import { createFloatTables } from './float-tables.ts'

const closers = createClosers()
afterEach(() => closers.closeAll())

const folder = new URL('../../../store/clickhouse/', import.meta.url)

function openNewDatabase(): { url: string; clickhouse: ClickHouse } {
  const url = new URL(inject('stores').clickhouseUrl)
  url.pathname = `/${uniqueName('migrations').replaceAll('-', '_')}`
  const clickhouse = openClickHouse({ url: url.href })
  closers.push(async () => {
    await clickhouse.command(`DROP DATABASE IF EXISTS ${clickhouse.database} SYNC`)
    await clickhouse.close()
  })
  return { url: url.href, clickhouse }
}

async function openFloatDatabase() {
  const opened = openNewDatabase()
  const { clickhouse } = opened
  await createFloatTables(clickhouse)
  for (const table of ['points', 'system_points']) {
    await clickhouse.command(
      `INSERT INTO ${clickhouse.database}.${table} SELECT 7, 'loss', 'train', number, number, 3, 4, number, 0, number, 1, number / 3
       FROM numbers(1000)`,
    )
  }
  return opened
}

/** Each definition by its table, as if the database were called `svc`. */
async function readDefinitions({ database, rows }: ClickHouse): Promise<Record<string, string>> {
  const tables = await rows<{ name: string; definition: string }>(
    'SELECT name, create_table_query AS definition FROM system.tables WHERE database = {database:String} ORDER BY name',
    { database },
  )
  return Object.fromEntries(tables.map((it) => [it.name, it.definition.replaceAll(`${database}.`, 'svc.')]))
}

async function readFreshDefinitions() {
  const { clickhouse } = openNewDatabase()
  await migrateClickHouse(clickhouse)
  return await readDefinitions(clickhouse)
}

async function readValues({ database, rows }: ClickHouse, table: string): Promise<number[]> {
  const points = await rows<{ value: number }>(
    `SELECT reinterpretAsFloat64(value_bits) AS value FROM ${database}.${table} FINAL ORDER BY step`,
  )
  return points.map((it) => it.value)
}

const thirds = Array.from({ length: 1_000 }, (_, nth) => nth / 3)

it('every numbered file is in the list under its name, in order', () => {
  const files = readdirSync(new URL('migrations', folder)).filter((it) => /^\d/.test(it))
  expect(migrations.map((it) => `${it.name}.ts`)).toEqual(files.toSorted())
})

it('an installation without a record of migrations keeps its tables and parts, and ends like a new one', async () => {
  const { clickhouse } = openNewDatabase()
  await migrateClickHouse(clickhouse)
  const { database } = clickhouse
  await clickhouse.command(
    `INSERT INTO ${database}.points (experiment_id, metric, context, step, request_hi, request_lo, place, value_bits)
     SELECT 7, 'loss', 'train', number, 3, 4, number, 1 FROM numbers(1000)`,
  )
  await clickhouse.command(`DROP TABLE ${database}.svc_migrations SYNC`)
  const readParts = () =>
    clickhouse.rows(
      `SELECT table, name, rows, modification_time FROM system.parts
       WHERE active AND database = {database:String} AND table != 'svc_migrations' ORDER BY ALL`,
      { database },
    )
  const readIds = () =>
    clickhouse.rows(
      `SELECT name, uuid FROM system.tables WHERE database = {database:String} AND name != 'svc_migrations' ORDER BY name`,
      { database },
    )
  const before = [await readParts(), await readIds()]
  const said: string[] = []
  await expect(checkClickHouse(clickhouse)).rejects.toThrow(
    /older schema \(missing: 0001-.+\): run "svc migrate" first/,
  )

  await migrateClickHouse(clickhouse, (text) => said.push(text))

  await checkClickHouse(clickhouse)
  expect([await readParts(), await readIds()]).toEqual(before)
  expect(said).toEqual([])
  expect(await readDefinitions(clickhouse)).toEqual(await readFreshDefinitions())
})

it('a migration killed after every few statements continues and ends like a new installation', async () => {
  const { url, clickhouse } = await openFloatDatabase()
  const script = `
    import { openClickHouse } from '${new URL('connection.ts', folder)}'
    import { migrateClickHouse } from '${new URL('migrations/migrate.ts', folder)}'
    const clickhouse = openClickHouse({ url: process.env.URL })
    let left = Number(process.env.STATEMENTS)
    const command = async (...given) => {
      await clickhouse.command(...given)
      if (--left === 0) process.kill(process.pid, 'SIGKILL')
    }
    await migrateClickHouse({ ...clickhouse, command })
    await clickhouse.close()`
  const endings: unknown[] = []
  // Killed in 0001, between its two renames, in 0002, in 0003 before the old table is dropped, after it, in 0004 and in 0005.
  for (const statements of [3, 5, 9, 18, 4, 6, 11, 1000]) {
    const environment = { URL: url, STATEMENTS: String(statements) }
    const child = runCommand(process.execPath, ['--input-type=module', '--eval', script], environment, (close) =>
      closers.push(async () => void (await close())),
    )
    const { signal, code } = await child.ended
    endings.push(signal ?? (code === 0 ? 'done' : child.stderr()))
  }

  expect(endings).toEqual([...Array(7).fill('SIGKILL'), 'done'])
  await checkClickHouse(clickhouse)
  expect(await readValues(clickhouse, 'points')).toEqual(thirds)
  expect(await readValues(clickhouse, 'system_points')).toEqual(thirds)
  // Workers of the version that made the database may still write to it.
  const { points_summary_view, points_summary_chunks_view, ...others } = await readDefinitions(clickhouse)
  expect(points_summary_view && points_summary_chunks_view).toMatch(/^CREATE MATERIALIZED VIEW/)
  expect(others).toEqual(await readFreshDefinitions())
})

it('concurrent runs are serialized, and each migration runs once', async () => {
  const { url, clickhouse } = await openFloatDatabase()
  const { postgresUrl } = inject('stores')
  const name = uniqueName('migrations').replaceAll('-', '_')
  const postgres = new pg.Client({ connectionString: postgresUrl })
  await postgres.connect()
  await postgres.query(`CREATE DATABASE ${name}`)
  closers.push(async () => {
    await postgres.query(`DROP DATABASE ${name} WITH (FORCE)`)
    await postgres.end()
  })
  const ownPostgres = new URL(postgresUrl)
  ownPostgres.pathname = `/${name}`
  const stores = { ...inject('stores'), postgresUrl: ownPostgres.href, clickhouseUrl: url, redisUrl: undefined }
  const said: string[] = []

  await Promise.all([1, 2].map(() => migrateStores(stores, undefined, (text) => said.push(text))))

  expect(said).toEqual([
    'points: 1000 of 1000 rows are in their new form',
    'system_points: 1000 of 1000 rows are in their new form',
  ])
  const records = await clickhouse.rows<{ name: string }>(
    `SELECT name FROM ${clickhouse.database}.svc_migrations ORDER BY name`,
  )
  expect(records.map((it) => it.name)).toEqual(migrations.map((it) => it.name))
  expect(await readValues(clickhouse, 'points')).toEqual(thirds)
})
