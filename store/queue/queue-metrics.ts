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
      'The share of the memory it may use that the queue’s Redis uses; 0 where the queue is in Postgres',
      [],
    ),
    blocksMax: gauge('svc_queue_blocks_max', 'What a queue may hold before writes are refused', []),
  }
}
