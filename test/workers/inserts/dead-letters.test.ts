import { createPostgresBackend, Queue } from 'bullmq'
import pg from 'pg'
import { afterEach, expect, it } from 'vitest'
import { createClosers } from '../../../runtime/closers.ts'
import { openClickHouse } from '../../../store/clickhouse/connection.ts'
import { storeBlocks } from '../../../store/clickhouse/points/store-blocks.ts'
import { openDatabase } from '../../../store/postgres/database.ts'
import { findDeadLetter, listDeadLetters } from '../../../store/postgres/dead-letters.ts'
import { type QueueName, queues } from '../../../store/queue/queues.ts'
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
  await clickhouse.command(
    `ALTER TABLE ${clickhouse.database}.point_chunks ADD CONSTRAINT no_bad_chunks CHECK metric != 'bad'`,
  )
  const service = await openTestService({ stores })
  closers.push(service.close)
  const { client } = service
  const experimentKey = await client.createExperiment()
  const values = Array.from({ length: 100 }, (_, index) => index)

  // With an index of its own, each point is a row.
  const loss = { metricName: 'loss', context: 'train', values, steps: values, firstIndex: 0 }
  await client.post('/write/experiment/metrics/batch', { experimentKey, series: [loss] })
  const chunks = ['bad', 'other'].map((metricName) => ({ metricName, values: [1, 2, 3, 4], steps: [1, 2, 3, 4] }))
  await client.post('/write/experiment/metrics/batch', { experimentKey, series: chunks })
  await client.post('/write/experiment/metric', { experimentKey, ...aPoint({ metricName: 'bad' }) })
  await client.post('/write/experiment/metric', { experimentKey, ...aPoint({ metricName: 'good' }) })

  const points = await client.readPoints(experimentKey, 'loss', 99)
  expect(points.map((it) => Number(it.metricValue))).toEqual(values.filter((value) => value !== 13))
  await client.readPoints(experimentKey, 'good', 1)
  await client.readPoints(experimentKey, 'other', 4)
  const letters = await eventually(async () => {
    const found = await listDeadLetters(database, 10)
    expect(found).toHaveLength(3)
    return found
  })
  expect(
    letters.map((it) => [it.queue, it.rows, /no_thirteens|no_bad_chunks/.exec(it.reason)?.[0]]).toSorted(),
  ).toEqual([
    ['metricChunks', 1, 'no_bad_chunks'],
    ['metrics', 1, 'no_thirteens'],
    ['metrics', 1, 'no_thirteens'],
  ])

  // Once the reason is gone the row can be stored as it was sent.
  await clickhouse.command(`ALTER TABLE ${clickhouse.database}.points DROP CONSTRAINT no_thirteens`)
  await clickhouse.command(`ALTER TABLE ${clickhouse.database}.point_chunks DROP CONSTRAINT no_bad_chunks`)
  for (const { id, queue } of letters) {
    const letter = await findDeadLetter(database, id)
    await storeBlocks(clickhouse, queues[queue as QueueName].table, [letter?.bytes as Buffer])
  }
  // Of the point and of the chunk.
  await client.readPoints(experimentKey, 'bad', 5)
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
