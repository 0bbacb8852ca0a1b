import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import zlib from 'node:zlib'
import { afterEach, expect, it } from 'vitest'
import { createClosers } from '../../../runtime/closers.ts'
import { createNativeBlock } from '../../../store/clickhouse/blocks/native-block.ts'
import { type ClickHouse, openClickHouse } from '../../../store/clickhouse/connection.ts'
import { migrateClickHouse } from '../../../store/clickhouse/migrations/migrate.ts'
import { tombstonesTable } from '../../../store/clickhouse/monitoring/tables.ts'
import { storeBlocks } from '../../../store/clickhouse/points/store-blocks.ts'
import { summaryTable } from '../../../store/clickhouse/points/summaries/summary.ts'
import { pointsTable } from '../../../store/clickhouse/points/tables.ts'
import { openEmbeddedClickHouse } from '../../../store/embedded/clickhouse.ts'
import { aBlockOfPoints } from '../../kit/builders.ts'
import { eventually } from '../../kit/eventually.ts'

const closers = createClosers()
afterEach(() => closers.closeAll())

/** A ClickHouse of our own, whose files can be looked at. */
async function openOwnClickHouse() {
  const folder = await mkdtemp(path.join(tmpdir(), 'svc-inserts-'))
  closers.push(() => rm(folder, { recursive: true, force: true }))
  const engine = await openEmbeddedClickHouse({ folder, log: { info() {}, warn() {}, error() {} } })
  closers.push(() => engine.close())
  const clickhouse = openClickHouse({ url: engine.url })
  closers.push(() => clickhouse.close())
  await migrateClickHouse(clickhouse)
  return { folder, engine, clickhouse }
}

async function readSteps(clickhouse: ClickHouse): Promise<number[]> {
  const rows = await clickhouse.rows<{ step: string }>(
    `SELECT step FROM ${clickhouse.database}.points FINAL WHERE experiment_id = 7 ORDER BY step`,
  )
  return rows.map((it) => Number(it.step))
}

async function countSeries(clickhouse: ClickHouse): Promise<number> {
  const rows = await clickhouse.rows<{ series: string }>(
    `SELECT uniqExact(experiment_id, metric, context) AS series FROM ${clickhouse.database}.${summaryTable}`,
  )
  return Number(rows[0]?.series)
}

it('the rows of a repeated insert are read once', async () => {
  const { clickhouse } = await openOwnClickHouse()

  for (let time = 0; time < 3; time++) await storeBlocks(clickhouse, pointsTable, [aBlockOfPoints(3)])

  expect(await readSteps(clickhouse)).toEqual([0, 1, 2])
})

it('a block that is twice in one insert is read once, and stored once after merges', async () => {
  const { clickhouse } = await openOwnClickHouse()
  const countRows = async () => {
    const [row] = await clickhouse.rows<{ rows: string }>(`SELECT count() AS rows FROM ${clickhouse.database}.points`)
    return Number(row?.rows)
  }

  await storeBlocks(clickhouse, pointsTable, [aBlockOfPoints(3), aBlockOfPoints(3)])

  expect(await readSteps(clickhouse)).toEqual([0, 1, 2])
  expect(await countSeries(clickhouse)).toBe(1)
  await clickhouse.command(`OPTIMIZE TABLE ${clickhouse.database}.points FINAL`)
  expect(await countRows()).toBe(3)
})

it('a block that is delivered twice into one insert is stored once at once', async () => {
  const { clickhouse } = await openOwnClickHouse()
  const aBlock = (claim: number) => {
    const block = createNativeBlock(tombstonesTable)
    for (const column of Object.values(block.columns)) column.push(claim)
    block.endRow()
    return zlib.zstdCompressSync(block.take())
  }

  await clickhouse.insertBlocks(tombstonesTable, [aBlock(1), aBlock(2), aBlock(1)])

  const rows = await clickhouse.rows(`SELECT count() AS rows FROM ${clickhouse.database}.${tombstonesTable.name}`)
  expect(rows).toEqual([{ rows: '2' }])
})

it('an insert that was killed after ClickHouse had recorded it is stored by its retry', async () => {
  const { folder, engine, clickhouse } = await openOwnClickHouse()
  await storeBlocks(clickhouse, pointsTable, [aBlockOfPoints(3)])

  // What the kill leaves: whatever ClickHouse notes about inserts, and no part, of the table and of its summary.
  const parts = await clickhouse.rows<{ path: string }>(
    'SELECT path FROM system.parts WHERE database = {database:String} AND active',
    { database: clickhouse.database },
  )
  const pid = engine.pid()
  process.kill(pid, 'SIGKILL')
  for (const part of parts) await rm(path.resolve(folder, 'data', part.path), { recursive: true })
  await eventually(async () => {
    expect(engine.pid()).not.toBe(pid)
    await clickhouse.ping()
  })
  expect(await readSteps(clickhouse)).toEqual([])

  await storeBlocks(clickhouse, pointsTable, [aBlockOfPoints(3)])

  expect(await readSteps(clickhouse)).toEqual([0, 1, 2])
  expect(await countSeries(clickhouse)).toBe(1)
})
