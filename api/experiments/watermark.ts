import { type QueueName, queuesOf } from '../../store/queue/queues.ts'

/** The longest time from acceptance to the queue. */
const queuedAfterMs = 1_000
/** The longest time from acceptance to being readable, unless the queue is behind. */
const storedAfterMs = 5_000
/** In blocks: a queue with more is behind, and has caught up when it stays at `clearedMost` or fewer. */
const backlogLeast = 1_000
const clearedMost = 100

/**
 * The watermark: everything accepted before this time is stored. It is one second ago when the queue is empty, and otherwise
 * five seconds ago, but no earlier than it was before. While a queue is behind, as after an outage, its jobs run in any order, so there is no watermark until it
 * has caught up.
 *
 * @param queueDepth the number of waiting and active blocks
 */
export function createWatermark(queueDepth: (name: QueueName) => Promise<number>) {
  const behind = new Map<QueueName, { clearedAtMs: number | undefined }>()
  const reachedMs = new Map<QueueName, number>()

  function hasCaughtUp(name: QueueName, depth: number, nowMs: number): boolean {
    const backlog = behind.get(name)
    if (!backlog || depth === 0) return true
    backlog.clearedAtMs = depth > clearedMost ? undefined : (backlog.clearedAtMs ?? nowMs)
    return backlog.clearedAtMs !== undefined && nowMs - backlog.clearedAtMs > storedAfterMs
  }

  async function findOne(name: QueueName): Promise<number | undefined> {
    const nowMs = Date.now()
    const depth = await queueDepth(name)
    if (depth > backlogLeast && !behind.has(name)) behind.set(name, { clearedAtMs: undefined })
    if (!hasCaughtUp(name, depth, nowMs)) return undefined
    behind.delete(name)
    const latestMs = nowMs - queuedAfterMs
    const surelyMs = depth === 0 ? latestMs : nowMs - storedAfterMs
    // Not in the future where the clock was set back.
    const foundMs = Math.min(Math.max(surelyMs, reachedMs.get(name) ?? 0), latestMs)
    reachedMs.set(name, foundMs)
    return foundMs
  }

  return {
    /** Call this when the store was down: the queues may be behind. */
    storeWasAway(names: QueueName[]) {
      for (const name of names.flatMap(queuesOf)) behind.set(name, { clearedAtMs: undefined })
    },

    /** In ms since the Unix epoch; undefined while the queue, or one of the two of metrics, is behind. */
    async find(name: QueueName): Promise<number | undefined> {
      const found = await Promise.all(queuesOf(name).map(findOne))
      return found.reduce((least, it) => (least === undefined || it === undefined ? undefined : Math.min(least, it)))
    },
  }
}
