import { createPostgresBackend, Queue } from 'bullmq'
import pg from 'pg'
import { afterEach, expect, it } from 'vitest'
import { createClosers } from '../../../runtime/closers.ts'
import { openClickHouse } from '../../../store/clickhouse/connection.ts'
import { pointsTable } from '../../../store/clickhouse/points/tables.ts'
import { openDatabase } from '../../../store/postgres/database.ts'
import { findDeadLetter, listDeadLetters } from '../../../store/postgres/dead-letters.ts'
import { aPoint } from '../../kit/builders.ts'
import { eventually } from '../../kit/eventually.ts'
import { openOwnStores, openTestService } from '../../kit/service.ts'

const closers = createClosers()
afterEach(() => closers.closeAll())

async function openService() {
  const stores = await openOwnStores('postgres')
  const database = openDatabase({ url: stores.postgresUrl, onError: () => undefined })
  closers.push(() => database.close())
  const clickhouse = openClickHouse({ url: stores.clickhouseUrl })
  closers.push(() => clickhouse.close())
  return { stores, database, clickhouse }
}

it('rows that ClickHouse can never store become dead letters with the reason, and all others are stored', async () => {
  const { stores, database, clickhouse } = await openService()
  await clickhouse.command(
    `ALTER TABLE ${clickhouse.database}.points ADD CONSTRAINT no_thirteens CHECK reinterpretAsFloat64(value_bits) != 13 AND metric != 'bad'`,
  )
  const service = await openTestService({ stores })
  closers.push(service.close)
  const { client } = service
  const experimentKey = await client.createExperiment()
  const values = Array.from({ length: 100 }, (_, index) => index)

  const metrics = values.map((value) => aPoint({ metricValue: value, step: value, context: 'train' }))
  await client.post('/write/experiment/metrics/batch', { experimentKey, metrics })
  await client.post('/write/experiment/metric', { experimentKey, ...aPoint({ metricName: 'bad' }) })
  await client.post('/write/experiment/metric', { experimentKey, ...aPoint({ metricName: 'good' }) })

  const points = await client.readPoints(experimentKey, 'loss', 99)
  expect(points.map((it) => Number(it.metricValue))).toEqual(values.filter((value) => value !== 13))
  await client.readPoints(experimentKey, 'good', 1)
  const letters = await eventually(async () => {
    const found = await listDeadLetters(database, 10)
    expect(found).toHaveLength(2)
    return found
  })
  expect(letters.map((it) => it.rows)).toEqual([1, 1])
  for (const letter of letters)
    expect(letter).toMatchObject({ queue: 'metrics', reason: expect.stringContaining('no_thirteens') })

  // Once the reason is gone the row can be stored as it was sent.
  await clickhouse.command(`ALTER TABLE ${clickhouse.database}.points DROP CONSTRAINT no_thirteens`)
  for (const { id } of letters) {
    const letter = await findDeadLetter(database, id)
    await clickhouse.insertBlocks(pointsTable, [letter?.bytes as Buffer])
  }
  const all = await client.readPoints(experimentKey, 'loss', 100)
  expect(all.map((it) => Number(it.metricValue))).toEqual(values)
  expect(all[13]).toMatchObject({ step: 13, runContext: 'train' })
})

it('a damaged block becomes one dead letter, and other blocks are stored', async () => {
  const { stores, database } = await openService()
  const pool = new pg.Pool({ connectionString: stores.postgresUrl, options: '-c search_path=bullmq' })
  closers.push(() => pool.end())
  const queue = new Queue('metrics', { connection: pool as never }, createPostgresBackend as never)
  closers.push(() => queue.close())
  const damaged = Buffer.from('no zstd frame')
  await queue.add('block', { rows: 7, receivedMs: 5, block: damaged.toString('base64') })
  const service = await openTestService({ stores })
  closers.push(service.close)
  const experimentKey = await service.client.createExperiment()
  for (let step = 0; step < 10; step++) {
    await service.client.post('/write/experiment/metric', { experimentKey, ...aPoint({ step }) })
  }

  await service.client.readPoints(experimentKey, 'loss', 10)
  const letter = await eventually(async () => {
    const [found] = await listDeadLetters(database, 10)
    expect(found).toMatchObject({ rows: 7, receivedMs: 5n, reason: expect.stringMatching(/ZSTD/i) })
    return await findDeadLetter(database, found?.id as bigint)
  })
  expect(letter?.bytes).toEqual(damaged)
})
