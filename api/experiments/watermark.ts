import type { QueueName } from '../../store/queue/queues.ts'

/** From acceptance to the queue. */
const queuedAfterMs = 1_000
/** From acceptance to being readable, at the latest, unless the queue is behind. */
const storedAfterMs = 5_000
/** In blocks. More than this is no longer what is just being worked on; less than that is. */
const backlogLeast = 1_000
const clearedMost = 100

/**
 * Until when all that was accepted is stored: to a second ago when a queue holds nothing, and otherwise to five seconds
 * ago, by when what was accepted is readable. While a queue is behind, as after an outage, its jobs are done in no order
 * that could be told, so nothing is final before it has caught up.
 *
 * @param queueDepth blocks that wait or are at work
 */
export function createWatermark(queueDepth: (name: QueueName) => Promise<number>) {
  const behind = new Map<QueueName, { clearedAtMs: number | undefined }>()

  function hasCaughtUp(name: QueueName, depth: number, nowMs: number): boolean {
    const backlog = behind.get(name)
    if (!backlog || depth === 0) return true
    backlog.clearedAtMs = depth > clearedMost ? undefined : (backlog.clearedAtMs ?? nowMs)
    return backlog.clearedAtMs !== undefined && nowMs - backlog.clearedAtMs > storedAfterMs
  }

  return {
    /** To be called when the store was away: the queues may be behind. */
    storeWasAway(names: QueueName[]) {
      for (const name of names) behind.set(name, { clearedAtMs: undefined })
    },

    /** In ms since the Unix epoch; undefined while the queue is behind. */
    async find(name: QueueName): Promise<number | undefined> {
      const nowMs = Date.now()
      const depth = await queueDepth(name)
      if (depth > backlogLeast && !behind.has(name)) behind.set(name, { clearedAtMs: undefined })
      if (!hasCaughtUp(name, depth, nowMs)) return undefined
      behind.delete(name)
      return nowMs - (depth === 0 ? queuedAfterMs : storedAfterMs)
    },
  }
}
