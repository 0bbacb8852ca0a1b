import { z } from 'zod'
import { experimentKey, object } from '../../http/body/fields.ts'
import { type Route, route } from '../../http/route.ts'
import type { ClickHouse } from '../../store/clickhouse/connection.ts'
import { countRows } from '../../store/clickhouse/row-counts.ts'
import { type ExperimentType, experimentTypes } from '../../store/limits.ts'
import type { Database } from '../../store/postgres/database.ts'
import { listCounters } from '../../store/postgres/experiments/counters.ts'
import { type QueueName, queues, queuesOf } from '../../store/queue/queues.ts'
import type { Access } from '../access.ts'

type Deps = {
  database: Database
  clickhouse: ClickHouse
  access: Access
  /** The number of waiting and active blocks. */
  queueDepth(name: QueueName): Promise<number>
}

/** Reads how much was accepted, stored and throttled. */
export function createCounterRoutes({ database, clickhouse, access, queueDepth }: Deps): Route[] {
  /**
   * For types that go through a queue, the stored rows are counted. The difference to the accepted rows is pending while the
   * queue is not empty; otherwise nothing is pending.
   */
  async function count(type: ExperimentType, experimentId: bigint, accepted: number) {
    if (!isQueued(type)) return { accepted, stored: accepted, pending: 0 }
    // The queue first: rows that leave it in between are then counted as stored.
    const depths = await Promise.all(queuesOf(type).map(queueDepth))
    const depth = depths.reduce((sum, it) => sum + it, 0)
    const stored = await countRows(clickhouse, queues[type].table, experimentId)
    const pending = depth === 0 ? 0 : Math.max(0, accepted - stored)
    return { accepted: stored + pending, stored, pending }
  }

  return [
    route({
      method: 'GET',
      path: '/experiment/counters',
      permission: 'reader',
      topic: 'Experiments',
      summary: 'Reads, for each data type, how much was accepted, stored and throttled, and how much is pending.',
      query: object({ experimentKey }),
      answer: z.object({
        counters: z.array(
          z.object({
            type: z.enum(experimentTypes),
            accepted: z.int().describe('acknowledged; a repeated one counts once'),
            stored: z.int().describe('accepted and readable'),
            throttled: z.int().describe('rejected with 429, or dropped because of a limit by count'),
            pending: z.int().describe('accepted, but not readable yet'),
          }),
        ),
      }),
      shape: 'plain',
      async handle({ query, caller }) {
        const experiment = await access.experiment(caller, query.experimentKey)
        const counted = new Map((await listCounters(database, experiment.id)).map((it) => [it.type, it]))
        const counters = experimentTypes.map(async (type) => {
          const { accepted, throttled } = counted.get(type) ?? { accepted: 0n, throttled: 0n }
          return { type, ...(await count(type, experiment.id, Number(accepted))), throttled: Number(throttled) }
        })
        return { counters: await Promise.all(counters) }
      },
    }),
  ]
}

function isQueued(type: ExperimentType): type is ExperimentType & QueueName {
  return type in queues
}
