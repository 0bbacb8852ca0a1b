import { openPostgresQueue } from './postgres-queue.ts'
import type { Producer, QueueBackend, QueueSettings } from './queue.ts'
import type { QueueName } from './queues.ts'
import { openRedisQueue } from './redis-queue.ts'

/** Opens the queue: on Redis when there is an address for it, else on Postgres. Each queue has one producer per process. */
export function openQueueBackend(settings: QueueSettings): QueueBackend {
  const backend =
    settings.redisUrl === undefined ? openPostgresQueue(settings) : openRedisQueue(settings.redisUrl, settings)
  const producers = new Map<QueueName, Promise<Producer>>()
  return {
    ...backend,
    openProducer(name) {
      const open = producers.get(name)
      if (open) return open
      const opening = backend.openProducer(name)
      producers.set(name, opening)
      // A producer that could not connect may be opened again.
      opening.catch(() => producers.delete(name))
      return opening
    },
  }
}
