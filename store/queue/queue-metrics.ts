import { Gauge, type Registry } from 'prom-client'

/**
 * The metrics of the queue. Ingest reports them when it checks for overload, workers with the metrics of all stores. One process
 * may be both, so a metric may exist already.
 */
export function openQueueMetrics(metricsRegistry: Registry) {
  const gauge = <Label extends string>(name: string, help: string, labelNames: readonly Label[]) =>
    (metricsRegistry.getSingleMetric(name) as Gauge<Label> | undefined) ??
    new Gauge({ name, help, labelNames, registers: [metricsRegistry] })
  return {
    depth: gauge('svc_queue_blocks', 'Blocks that wait in the queue or are at work', ['queue']),
    memoryShare: gauge(
      'svc_queue_memory_share',
      'How much of its memory limit the queue’s Redis uses, from 0 to 1; 0 if the queue is in Postgres',
      [],
    ),
    blocksMax: gauge('svc_queue_blocks_max', 'What a queue may hold before writes are refused', []),
  }
}
