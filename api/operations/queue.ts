import { z } from 'zod'
import { type Route, route } from '../../http/route.ts'
import type { Database } from '../../store/postgres/database.ts'
import { countDeadLetters } from '../../store/postgres/dead-letters.ts'
import { countPendingDeliveries, findOldestDueMs } from '../../store/postgres/webhooks/deliveries.ts'
import type { QueueBackend } from '../../store/queue/queue.ts'
import { type QueueName, queueNames } from '../../store/queue/queues.ts'

type Deps = { database: Database; backend: QueueBackend; queueBlocksMax: number }

const oldestAnswer = z.int().nullable()

/** What is accepted and not stored yet, and what waits to be sent. */
export function createQueueRoutes({ database, backend, queueBlocksMax }: Deps): Route[] {
  async function look(queue: QueueName) {
    const producer = await backend.openProducer(queue)
    const [counts, load, oldestMs] = await Promise.all([producer.count(), producer.load(), producer.oldestReceivedMs()])
    return { queue, ...counts, oldestAt: oldestMs ?? null, memoryShare: load.memoryShare }
  }

  return [
    route({
      method: 'GET',
      path: '/admin/queue',
      permission: 'operator',
      topic: 'Operations',
      summary: 'Reads how many blocks of rows wait in each queue, how long the oldest has, and what else waits.',
      answer: z.object({
        kind: z.enum(['redis', 'postgres']),
        blocksMax: z.int().describe('the blocks of a queue at which writes are refused'),
        memoryShare: z.number().describe('of the memory limit of Redis, from 0 to 1; 0 for a queue in Postgres'),
        queues: z.array(
          z.object({
            queue: z.enum(queueNames),
            waiting: z.int(),
            active: z.int().describe('being stored by a worker'),
            delayed: z.int().describe('wait for another attempt: a store did not take them'),
            oldestAt: oldestAnswer.describe(
              'when the oldest block was accepted, ms since the Unix epoch; null when empty',
            ),
          }),
        ),
        webhooks: z.object({
          pending: z.int(),
          oldestDueAt: oldestAnswer.describe(
            'since when the oldest one is due, ms since the Unix epoch; null when none is',
          ),
        }),
        deadLetters: z.object({ letters: z.int(), rows: z.int() }),
      }),
      shape: 'plain',
      async handle() {
        const [queues, pending, oldestDueMs, deadLetters] = await Promise.all([
          Promise.all(queueNames.map(look)),
          countPendingDeliveries(database),
          findOldestDueMs(database, Date.now()),
          countDeadLetters(database),
        ])
        return {
          kind: backend.kind,
          blocksMax: queueBlocksMax,
          memoryShare: Math.max(...queues.map((it) => it.memoryShare)),
          queues: queues.map(({ memoryShare: _, ...it }) => it),
          webhooks: { pending, oldestDueAt: oldestDueMs === undefined ? null : Math.floor(oldestDueMs) },
          deadLetters,
        }
      },
    }),
  ]
}
