import zlib from 'node:zlib'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { StoreUrls } from '../../../cli/settings.ts'
import { createClosers } from '../../../runtime/closers.ts'
import { readNativeBlock } from '../../../store/clickhouse/blocks/native-slice.ts'
import { type ClickHouse, isPermanent, openClickHouse } from '../../../store/clickhouse/connection.ts'
import { pointsTable } from '../../../store/clickhouse/points/tables.ts'
import { type Database, openDatabase } from '../../../store/postgres/database.ts'
import { insertDeadLetter, listDeadLetters } from '../../../store/postgres/dead-letters.ts'
import { maxInserts, poisonRowsMax, storeAroundPoisonRows } from '../../../workers/inserts/poison-rows.ts'
import { aBlockOfPoints } from '../../kit/builders.ts'
import { eventually } from '../../kit/eventually.ts'
import { svc, toStoreSettings } from '../../kit/processes/svc.ts'
import { openOwnStores, openTestService } from '../../kit/service.ts'

const closers = createClosers()
afterEach(() => closers.closeAll())

let stores: StoreUrls
let database: Database
let clickhouse: ClickHouse
let inserts = 0
beforeEach(async () => {
  stores = await openOwnStores('postgres')
  database = openDatabase({ url: stores.postgresUrl, onError: () => undefined })
  closers.push(() => database.close())
  clickhouse = openClickHouse({ url: stores.clickhouseUrl })
  closers.push(() => clickhouse.close())
  inserts = 0
})

const insert = (blocks: Buffer[]) => {
  inserts++
  return clickhouse.insertBlocks(pointsTable, blocks)
}

/** Stores a block as a worker does once ClickHouse has refused it. */
async function storeRefused(rows: number, bytes: Buffer, insertRows = insert) {
  const refusal = await clickhouse.insertBlocks(pointsTable, [bytes]).catch((error: unknown) => error)
  expect(isPermanent(refusal)).toBe(true)
  await storeAroundPoisonRows({ rows, receivedMs: 5, bytes }, refusal, {
    insert: insertRows,
    isPermanent,
    quarantine: (block, reason) => insertDeadLetter(database, { queue: 'metrics', ...block, reason }),
  })
}

const alterPoints = (change: string) => clickhouse.command(`ALTER TABLE ${clickhouse.database}.points ${change}`)

/** The steps that are readable; each row once. */
async function readSteps(): Promise<number[]> {
  const rows = await clickhouse.rows<{ step: string }>(
    `SELECT step FROM ${clickhouse.database}.points FINAL ORDER BY step`,
  )
  return rows.map((it) => Number(it.step))
}

const range = (rows: number) => Array.from({ length: rows }, (_, step) => step)

async function replayAll() {
  const onClose = (close: () => unknown) => closers.push(async () => close())
  const replay = await svc(['dead-letters', 'replay', 'all'], toStoreSettings(stores), onClose)
  expect(replay.code, replay.stderr).toBe(0)
  const service = await openTestService({ stores, roles: new Set(['worker']) })
  closers.push(service.close)
}

it('a block that is rejected whole becomes one dead letter after few inserts, and a replay stores each row once', async () => {
  const rows = 65_000
  await alterPoints('RENAME COLUMN received TO received_elsewhere')
  await storeRefused(rows, aBlockOfPoints(rows))

  expect(inserts).toBeLessThan(100)
  const letters = await listDeadLetters(database, 10)
  expect(letters).toHaveLength(1)
  expect(letters[0]).toMatchObject({ rows, receivedMs: 5n, reason: expect.stringMatching(/received.*More than 16/s) })

  await alterPoints('RENAME COLUMN received_elsewhere TO received')
  await replayAll()
  await eventually(async () => expect(await readSteps()).toEqual(range(rows)))
  expect(await listDeadLetters(database, 10)).toEqual([])
})

describe('poison rows all over a block', () => {
  const rows = 1_000
  /** So far from each other that hardly two of them share a half. */
  const spread = (count: number) => new Set(range(count).map((at) => Math.floor(((at + 0.5) * rows) / count)))
  const aBlockWith = (poison: Set<number>) => aBlockOfPoints(rows, (step) => (poison.has(step) ? -1 : 1))
  const refuseNegative = () => alterPoints('ADD CONSTRAINT not_negative CHECK reinterpretAsFloat64(value_bits) >= 0')

  it('become one dead letter each up to the limit, and all other rows are stored', async () => {
    await refuseNegative()
    const poison = spread(poisonRowsMax)
    await storeRefused(rows, aBlockWith(poison))

    expect(inserts).toBeLessThanOrEqual(maxInserts(rows))
    const letters = await listDeadLetters(database, 100)
    expect(letters.map((it) => it.rows)).toEqual(Array(poisonRowsMax).fill(1))
    expect(await readSteps()).toEqual(range(rows).filter((step) => !poison.has(step)))
  })

  it('beyond the limit become one dead letter with their block, and a replay stores each row once', async () => {
    await refuseNegative()
    await storeRefused(rows, aBlockWith(spread(poisonRowsMax + 1)))

    expect(inserts).toBeLessThanOrEqual(maxInserts(rows))
    const letters = await listDeadLetters(database, 100)
    expect(letters.map((it) => it.rows)).toEqual([rows])
    expect((await readSteps()).length).toBeGreaterThan(0)

    await alterPoints('DROP CONSTRAINT not_negative')
    await replayAll()
    await eventually(async () => expect(await readSteps()).toEqual(range(rows)))
  })

  it('are quarantined once when ClickHouse goes away during the search and the block is tried again', async () => {
    await refuseNegative()
    const poison = spread(3)
    const away = new Error('ClickHouse is away')
    const insertUntilAway = async (blocks: Buffer[]) => {
      if (inserts === 30) throw away
      await insert(blocks)
    }
    await expect(storeRefused(rows, aBlockWith(poison), insertUntilAway)).rejects.toBe(away)
    expect(await listDeadLetters(database, 100)).toEqual([])

    await storeRefused(rows, aBlockWith(poison))
    expect((await listDeadLetters(database, 100)).map((it) => it.rows)).toEqual([1, 1, 1])
    expect(await readSteps()).toEqual(range(rows).filter((step) => !poison.has(step)))
  })
})

it('the search ends after a bounded number of inserts when ClickHouse rejects a range but accepts its halves', async () => {
  const rows = 1_000
  await alterPoints('ADD CONSTRAINT none CHECK value_bits != value_bits')
  const refusal = await clickhouse.insertBlocks(pointsTable, [aBlockOfPoints(1)]).catch((error: unknown) => error)
  const insertSingleRows = async ([bytes]: Buffer[]) => {
    inserts++
    if (readNativeBlock(zlib.zstdDecompressSync(bytes as Buffer)).rows > 1) throw refusal
  }
  await storeRefused(rows, aBlockOfPoints(rows), insertSingleRows)

  expect(inserts).toBe(maxInserts(rows))
  expect((await listDeadLetters(database, 100)).map((it) => it.rows)).toEqual([rows])
})
