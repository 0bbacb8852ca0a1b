import { createPostgresBackend, Queue } from 'bullmq'
import pg from 'pg'
import { expect, it } from 'vitest'
import { aPoint } from '../harness/builders.ts'
import { eventually } from '../harness/eventually.ts'
import { openOwnStores, openTestService } from '../harness/service.ts'

it('a block that ClickHouse can never store is kept with its reason, and its neighbours are stored', async () => {
  const stores = await openOwnStores('postgres')
  const pool = new pg.Pool({ connectionString: stores.postgresUrl, options: '-c search_path=bullmq' })
  const queue = new Queue('metrics', { connection: pool as never }, createPostgresBackend as never)
  await queue.add('block', { rows: 1, receivedMs: 0, block: Buffer.from('no zstd frame').toString('base64') })
  const service = await openTestService({ stores })
  try {
    const experimentKey = await service.client.createExperiment()
    for (let step = 0; step < 10; step++) {
      await service.client.post('/write/experiment/metric', { experimentKey, ...aPoint({ step }) })
    }

    await service.client.readPoints(experimentKey, 'loss', 10)
    const failed = await eventually(async () => {
      const jobs = await queue.getFailed()
      expect(jobs).toHaveLength(1)
      return jobs[0]
    })
    expect(failed?.failedReason).toMatch(/ZSTD/i)
  } finally {
    await service.close()
    await queue.close()
    await pool.end()
  }
})
