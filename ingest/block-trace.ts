import type { Span, Tracing } from '../runtime/tracing.ts'
import type { QueueName } from '../store/queue/queues.ts'

/**
 * The part of a trace in which a block goes to the queue. Of the requests that share a block, the first that is traced has
 * it as its own; the others and the block are linked, both ways.
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
        /** The span whose place in the trace goes along with the job. */
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
