import zlib from 'node:zlib'
import { Queue, Worker } from 'bullmq'
import fastify from 'fastify'
import { Redis } from 'ioredis'
import { pushPoints } from '../../ingest/points/rows.ts'
import { createNativeBlock } from '../../store/clickhouse/blocks/native-block.ts'
import { openClickHouse } from '../../store/clickhouse/connection.ts'
import { storeBlocks } from '../../store/clickhouse/points/store-blocks.ts'
import { pointsTable } from '../../store/clickhouse/points/tables.ts'
import { openDatabase } from '../../store/postgres/database.ts'

/**
 * The simplest design: one BullMQ job per point. `ingest` adds the job and answers; `worker` combines the points of many
 * jobs into one insert, like our worker, and then completes the jobs. It checks neither keys nor limits.
 *
 * Usage: node job-per-point.ts ingest|worker
 */
type Body = {
  experimentKey: string
  metricName: string
  metricValue: number
  context: string
  step: number
  timestamp: number
}

const { REDIS_URL = '', SVC_PORT, SVC_QUEUE_PREFIX = '', CLICKHOUSE_URL = '', POSTGRES_URL = '' } = process.env
const connection = new Redis(REDIS_URL, { maxRetriesPerRequest: null })
const queueName = 'job-per-point'
const jobsAtOnce = 2_000
const gapMs = 50

const app = fastify()
app.get('/readyz', () => 'ok')
if (process.argv[2] === 'ingest') startIngest()
else await startWorker()
await app.listen({ host: '127.0.0.1', port: Number(SVC_PORT) })
process.once('SIGTERM', () => process.exit())

function startIngest() {
  const queue = new Queue<Body>(queueName, {
    connection,
    prefix: SVC_QUEUE_PREFIX,
    defaultJobOptions: { removeOnComplete: true },
  })
  app.post('/api/rest/v2/write/experiment/metric', async ({ body }) => {
    await queue.add('point', body as Body)
    return { msg: 'Saved' }
  })
}

async function startWorker() {
  const clickhouse = openClickHouse({ url: CLICKHOUSE_URL })
  const database = openDatabase({ url: POSTGRES_URL, onError: () => undefined })
  const experiments = await database.rows<{ id: bigint; key: string }>('SELECT id, key FROM experiments')
  const ids = new Map(experiments.map(({ id, key }) => [key, id]))
  await database.close()

  const block = createNativeBlock(pointsTable)
  let counter = 0
  let stored = Promise.withResolvers<void>()
  let isInserting = false

  async function insert() {
    while (block.rows > 0) {
      const { resolve, reject } = stored
      stored = Promise.withResolvers()
      await storeBlocks(clickhouse, pointsTable, [zlib.zstdCompressSync(block.take())]).then(resolve, reject)
    }
    isInserting = false
  }

  new Worker<Body>(
    queueName,
    async ({ data }) => {
      const origin = {
        experimentId: ids.get(data.experimentKey) as bigint,
        identity: { high: 2n, low: counter++ },
        receivedMs: Date.now(),
      }
      const point = { ...data, metric: data.metricName, value: data.metricValue, epoch: undefined }
      pushPoints(block, origin, [point], [0])
      const done = stored.promise
      if (!isInserting) {
        isInserting = true
        setTimeout(insert, gapMs)
      }
      await done
    },
    { connection, prefix: SVC_QUEUE_PREFIX, concurrency: jobsAtOnce },
  )
}
