import { openPostgresQueue } from './postgres-queue.ts'
import type { QueueBackend, QueueSettings } from './queue.ts'
import { openRedisQueue } from './redis-queue.ts'

/** Opens the queue: on Redis when there is an address for it, else on Postgres. */
export function openQueueBackend(settings: QueueSettings): QueueBackend {
  return settings.redisUrl === undefined ? openPostgresQueue(settings) : openRedisQueue(settings.redisUrl, settings)
}
