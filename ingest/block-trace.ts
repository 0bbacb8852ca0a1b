import type { Span, Tracing } from '../runtime/tracing.ts'
import type { QueueName } from '../store/queue/queues.ts'

/**
 * The part of a trace in which a block goes to the queue. The span of a block is a child of its first traced request; the
 * other traced requests and the block link to each other.
 */
export type BlockTrace = ReturnType<typeof createBlockTrace>

export function createBlockTrace(tracing: Tracing, queue: QueueName) {
  const messaging = { 'messaging.system': 'bullmq', 'messaging.destination.name': queue }
  return {
    current: tracing.current,

    /** Undefined when none of the requests is traced. */
    begin([first, ...others]: Span[], rows: number) {
      if (!first) return undefined
      const block = tracing.start('commit block', {
        kind: 'internal',
        from: first.traceparent,
        links: others.map((it) => it.traceparent),
        attributes: { 'svc.queue': queue, 'svc.rows': rows, 'svc.traced_requests': others.length + 1 },
      })
      if (!block) return undefined
      for (const it of others) it.link(block.traceparent)
      let queued: Span | undefined
      return {
        /** The span that the job carries to the worker. */
        queue() {
          const attributes = { ...messaging, 'messaging.operation.type': 'send' }
          queued = tracing.start(`send ${queue}`, { kind: 'producer', from: block.traceparent, attributes })
          return queued
        },
        end(error?: unknown) {
          if (error !== undefined) queued?.end({ error })
          block.end({ error })
        },
      }
    },
  }
}
