import { afterEach, expect, inject, it } from 'vitest'
import { createClosers } from '../../../runtime/closers.ts'
import { type ClickHouse, openClickHouse } from '../../../store/clickhouse/connection.ts'
import { migrateClickHouse } from '../../../store/clickhouse/migrations/migrate.ts'
import { dropEarlierViews } from '../../../store/clickhouse/points/summaries/earlier-views.ts'
import { createSummary, createSummaryOfChunks } from '../../../store/clickhouse/points/summaries/summary.ts'
import { mergeTreeSettings } from '../../../store/clickhouse/tables.ts'
import { uniqueName } from '../../kit/service.ts'

const closers = createClosers()
afterEach(() => closers.closeAll())

async function openNewDatabase(): Promise<ClickHouse> {
  const url = new URL(inject('stores').clickhouseUrl)
  url.pathname = `/${uniqueName('views').replaceAll('-', '_')}`
  const clickhouse = openClickHouse({ url: url.href })
  closers.push(async () => {
    await clickhouse.command(`DROP DATABASE IF EXISTS ${clickhouse.database} SYNC`)
    await clickhouse.close()
  })
  await migrateClickHouse(clickhouse)
  return clickhouse
}

async function listSummaryViews({ database, rows }: ClickHouse): Promise<string[]> {
  const views = await rows<{ name: string }>(
    `SELECT name FROM system.tables WHERE database = {database:String} AND name LIKE 'points_summary%view' ORDER BY name`,
    { database },
  )
  return views.map((it) => it.name)
}

it('a new database has no views that fill the summary', async () => {
  const clickhouse = await openNewDatabase()
  expect(await listSummaryViews(clickhouse)).toEqual([])
  expect(await dropEarlierViews(clickhouse)).toBe(false)
})

it('a database of an earlier version keeps them for a day, in which workers of that version may still write', async () => {
  const clickhouse = await openNewDatabase()
  const { database } = clickhouse
  const both = ['points_summary_chunks_view', 'points_summary_view']
  for (const it of [...createSummary(clickhouse, mergeTreeSettings(clickhouse)), createSummaryOfChunks(clickhouse)]) {
    await clickhouse.command(it)
  }
  await clickhouse.command(`TRUNCATE TABLE ${database}.svc_migrations`)
  const migrate = (when: string) =>
    clickhouse.command(
      `INSERT INTO ${database}.svc_migrations (name, server, applied_at) VALUES ('0013-summaries-by-workers', '', ${when})`,
    )
  await migrate('now() - INTERVAL 23 HOUR')
  // Of another migration.
  await clickhouse.command(
    `INSERT INTO ${database}.svc_migrations (name, server, applied_at) VALUES ('0002-tables', '', now() - INTERVAL 90 DAY)`,
  )
  expect(await dropEarlierViews(clickhouse)).toBe(false)
  expect(await listSummaryViews(clickhouse)).toEqual(both)

  await clickhouse.command(`TRUNCATE TABLE ${database}.svc_migrations`)
  await migrate('now() - INTERVAL 25 HOUR')
  expect(await dropEarlierViews(clickhouse)).toBe(true)
  expect(await listSummaryViews(clickhouse)).toEqual([])
  expect(await dropEarlierViews(clickhouse)).toBe(false)
})
