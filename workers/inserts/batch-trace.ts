import type { Tracing } from '../../runtime/tracing.ts'
import type { Block } from '../../store/queue/queue.ts'
import type { QueueName } from '../../store/queue/queues.ts'

/**
 * The part of a trace after the queue: a span for each traced job, one for the batch that stores many jobs, and one for each
 * attempt to insert. The span of a batch is a child of its first traced job and links to the others.
 */
export function createBatchTrace(tracing: Tracing, queue: QueueName, table: string) {
  const messaging = { 'messaging.system': 'bullmq', 'messaging.destination.name': queue }

  return {
    /** Stores a block inside a span of its job when it is traced; the block then names that span. */
    async job(block: Block, store: (block: Block) => Promise<void>): Promise<void> {
      const job =
        block.trace === undefined
          ? undefined
          : tracing.start(`process ${queue}`, {
              kind: 'consumer',
              from: block.trace,
              attributes: { ...messaging, 'messaging.operation.type': 'process', 'svc.rows': block.rows },
            })
      await ended(job, store({ ...block, trace: job?.traceparent }))
    },

    async batch(blocks: Block[], work: () => Promise<void>): Promise<void> {
      const [first, ...others] = blocks.flatMap((it) => it.trace ?? [])
      const rows = blocks.reduce((sum, it) => sum + it.rows, 0)
      const batch =
        first === undefined
          ? undefined
          : tracing.start('store batch', {
              kind: 'internal',
              from: first,
              links: others,
              attributes: { 'svc.table': table, 'svc.rows': rows, 'svc.blocks': blocks.length },
            })
      await ended(batch, tracing.within(batch, work))
    },

    async insert(work: () => Promise<void>): Promise<void> {
      const batch = tracing.current()
      const insert =
        batch &&
        tracing.start(`INSERT ${table}`, {
          kind: 'client',
          from: batch.traceparent,
          attributes: {
            'db.system.name': 'clickhouse',
            'db.operation.name': 'INSERT',
            'db.collection.name': table,
          },
        })
      await ended(insert, work())
    },
  }
}

async function ended(span: ReturnType<Tracing['start']>, work: Promise<void>): Promise<void> {
  try {
    await work
    span?.end()
  } catch (error) {
    span?.end({ error })
    throw error
  }
}
