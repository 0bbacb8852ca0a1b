import { afterAll, beforeAll, expect, inject, it } from 'vitest'
import { type ClickHouse, openClickHouse } from '../../../store/clickhouse/connection.ts'
import { migrateClickHouse } from '../../../store/clickhouse/migrations/migrate.ts'
import { selectClaims } from '../../../store/clickhouse/monitoring/part-rows.ts'
import { eventValuesTable } from '../../../store/clickhouse/monitoring/tables.ts'
import { uniqueName } from '../../kit/service.ts'

let clickhouse: ClickHouse
beforeAll(async () => {
  const url = new URL(inject('stores').clickhouseUrl)
  url.pathname = `/${uniqueName('claims').replaceAll('-', '_')}`
  clickhouse = openClickHouse({ url: url.href })
  await migrateClickHouse(clickhouse)
})
afterAll(async () => {
  await clickhouse?.command(`DROP DATABASE IF EXISTS ${clickhouse.database}`)
  await clickhouse?.close()
})

const table = () => `${clickhouse.database}.${eventValuesTable.name}`
const insert = (from: number, to: number) =>
  clickhouse.command(
    `INSERT INTO ${table()} SELECT number % 2, 1, '1', 1, concat('f', toString(number % 7)), number, intDiv(number, 100),
       number % 100, 2, number, '' FROM numbers(${from}, ${to - from})`,
  )

const counts = () => selectClaims(clickhouse, eventValuesTable.name, 'model_id = 1 AND kind = 1', '_part')

async function expectCounted(rows: number) {
  const plan = await clickhouse.rows<{ explain: string }>(`EXPLAIN ${counts()}`)
  expect(plan.map((it) => it.explain).join('\n')).toContain('claim_counts')
  const [counted, read] = await Promise.all(
    [1, 0].map((use) => clickhouse.rows(`${counts()} ORDER BY ALL SETTINGS optimize_use_projections = ${use}`)),
  )
  expect(counted).toEqual(read)
  expect((counted as { n: string }[]).reduce((sum, it) => sum + Number(it.n), 0)).toBe(rows)
}

it('the values of each claim are counted in advance, and right after repetitions, merges and deletions', async () => {
  await insert(0, 10_000)
  await insert(5_000, 20_000)
  await expectCounted(12_500)
  await clickhouse.command(`OPTIMIZE TABLE ${table()} FINAL`)
  await expectCounted(10_000)
  await clickhouse.command(`DELETE FROM ${table()} WHERE claim < 50`)
  await expectCounted(7_500)
  await clickhouse.command(`ALTER TABLE ${table()} DELETE WHERE claim >= 150 SETTINGS mutations_sync = 2`)
  await expectCounted(5_000)
})
