import { afterEach, expect, it } from 'vitest'
import { createClosers } from '../../runtime/closers.ts'
import { openClickHouse } from '../../store/clickhouse/connection.ts'
import { openDatabase } from '../../store/postgres/database.ts'
import { openQueueBackend } from '../../store/queue/open-queue.ts'
import type { QueueName } from '../../store/queue/queues.ts'
import { eventually } from '../kit/eventually.ts'
import { openOwnStores, openTestService } from '../kit/service.ts'

/**
 * What docs/upgrading.md promises. Blocks of each version stand here as it wrote them: they are never written anew. A
 * version that changes a table adds its own.
 */
type OldBlock = { version: string; queue: QueueName; rows: number; block: string }

const blocks: OldBlock[] = [
  {
    version: '0.1.0',
    queue: 'metrics',
    rows: 2,
    block:
      'KLUv/WCyAGUHAKKLKSyQKen/fyu+u1L/sZY11JpcifbeoRHE07ZVllWWvKR2Q0Wx9TZg37bdNrN3Chcbtm0raEQku15jUK+0ZUlWCWnd4xUq5pY8u0Kc' +
      'KOzBpwOEs9VgQui1c5Iy2fgKxTXgYGRANDdr45tcAKsEv9HhY+Ry6aa9fN1j6pwYX3PYyMdgwqVuRIHFZlsuGV0LFc+BgKXum4cfIpJ1DRIPJifr' +
      '3qQeXj6ABAIdAI2YJUe4j2XgYvpBdq1w5lUAm8ACvgXygcxA7qKKgcwgC7fJHuwyVD6QD5KxTJOA7ZQQUUxSwEAwApQiv0JAAxgD',
  },
  {
    version: '0.1.0',
    queue: 'output',
    rows: 1,
    block:
      'KLUv/WAgACUGAOLJJCtwaZoD/P+5qqqIKLTKFdxEBkoa6iRkX+uzBoKgCGRz9X7Lwuz/fy+9/d4BF8rjojzDvgoZkd7Ps2TeH/Tu3FAEi/mvJ1Or' +
      'jXslliwMq9wKlYhW2FYftwKIeDDp6L3RMQABdw3KpYhQ6dP0vEPD+ZGSkphIgElCrechbcdi9afjRJYQBAZ6DRbY06b3kPJldImCBBMAbBgm6cBp' +
      'Jj4O7Ah9toQHVhhfBXI2A0t1C+QLMvYsAflWQg47R4NkOFsMA3g=',
  },
]

const closers = createClosers()
afterEach(() => closers.closeAll())

it('what each version has put into the queue is stored by this one', async () => {
  const stores = await openOwnStores('postgres')
  const backend = openQueueBackend({ ...stores, prefix: 'svc', onError: () => undefined })
  closers.push(() => backend.close())
  for (const { queue, rows, block } of blocks) {
    const producer = await backend.openProducer(queue)
    await producer.add({ rows, receivedMs: Date.now(), bytes: Buffer.from(block, 'base64') })
  }

  const worker = await openTestService({ stores, roles: new Set(['worker']) })
  closers.push(() => worker.close())

  const clickhouse = openClickHouse({ url: stores.clickhouseUrl })
  closers.push(() => clickhouse.close())
  const rowsOf = (query: string) => clickhouse.rows(query.replace('svc.', `${clickhouse.database}.`))
  await eventually(async () => {
    expect(
      await rowsOf(
        'SELECT experiment_id, metric, context, step, epoch, timestamp, toString(reinterpretAsFloat64(value_bits)) AS value FROM svc.points ORDER BY place',
      ),
    ).toEqual([
      {
        experiment_id: '77',
        metric: 'loss',
        context: 'train',
        step: '7',
        epoch: '1',
        timestamp: '1790000000000',
        value: '0.25',
      },
      { experiment_id: '77', metric: 'loss', context: '', step: '0', epoch: '0', timestamp: '0', value: 'nan' },
    ])
    expect(await rowsOf('SELECT experiment_id, context, line, stderr, offset FROM svc.output_lines')).toEqual([
      { experiment_id: '77', context: 'train', line: 'epoch 1', stderr: 1, offset: '3' },
    ])
  })
})

it('roles of this version start on the schema of a later one, so that processes can be rolled back', async () => {
  const stores = await openOwnStores('postgres')
  const database = openDatabase({ url: stores.postgresUrl, connectionsMax: 1, onError: () => undefined })
  closers.push(() => database.close())
  await database.row("INSERT INTO svc_migrations (name, run_on) VALUES ('9999_of-a-later-version', now())")
  await database.row('ALTER TABLE experiments ADD COLUMN of_a_later_version text')
  const clickhouse = openClickHouse({ url: stores.clickhouseUrl })
  closers.push(() => clickhouse.close())
  await clickhouse.command(`ALTER TABLE ${clickhouse.database}.points ADD COLUMN of_a_later_version UInt8 DEFAULT 1`)

  const service = await openTestService({ stores })
  closers.push(() => service.close())

  const experimentKey = await service.client.createExperiment()
  const point = { experimentKey, metricName: 'loss', metricValue: 1, step: 1 }
  expect((await service.client.post('/write/experiment/metric', point)).status).toBe(200)
  expect(await service.client.readPoints(experimentKey, 'loss', 1)).toHaveLength(1)
})
