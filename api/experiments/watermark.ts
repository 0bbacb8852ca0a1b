import { type QueueName, queuesOf } from '../../store/queue/queues.ts'

/** The longest time from acceptance to the queue. */
const queuedAfterMs = 1_000

/**
 * The watermark: everything accepted before this time is stored. It is one second before the oldest block in the queue was
 * added, or one second ago when the queue is empty, but no earlier than it was before.
 *
 * @param oldestAddedMs when the oldest block of a queue was added: infinite for an empty queue, undefined for a long one
 */
export function createWatermark(oldestAddedMs: (name: QueueName) => Promise<number | undefined>) {
  const reachedMs = new Map<QueueName, number>()

  async function findOne(name: QueueName): Promise<number | undefined> {
    // A block that is added after the question may be stored after the answer.
    const askedMs = Date.now()
    const addedMs = await oldestAddedMs(name)
    if (addedMs === undefined) return undefined
    const latestMs = askedMs - queuedAfterMs
    // Not in the future where the clock was set back.
    const foundMs = Math.min(Math.max(addedMs - queuedAfterMs, reachedMs.get(name) ?? 0), latestMs)
    reachedMs.set(name, foundMs)
    return foundMs
  }

  return {
    /** In ms since the Unix epoch; undefined while the queue, or one of the two of metrics, is long, as after an outage. */
    async find(name: QueueName): Promise<number | undefined> {
      const found = await Promise.all(queuesOf(name).map(findOne))
      return found.reduce((least, it) => (least === undefined || it === undefined ? undefined : Math.min(least, it)))
    },
  }
}
