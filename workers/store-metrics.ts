import type { Logger } from 'pino'
import { Gauge, type Registry } from 'prom-client'
import { repeat } from '../runtime/poll.ts'
import type { ClickHouse } from '../store/clickhouse/connection.ts'
import { readClickHouseState } from '../store/clickhouse/state.ts'
import type { Queries } from '../store/postgres/database.ts'
import { countDeadLetters } from '../store/postgres/dead-letters.ts'
import { readPostgresState } from '../store/postgres/state.ts'
import { findOldestDueMs } from '../store/postgres/webhooks/deliveries.ts'
import type { Producer, QueueBackend } from '../store/queue/queue.ts'
import { openQueueMetrics } from '../store/queue/queue-metrics.ts'
import { type QueueName, queueNames } from '../store/queue/queues.ts'

type Settings = {
  backend: QueueBackend
  queries: Queries
  clickhouse: ClickHouse
  metricsRegistry: Registry
  log: Logger
  /** The number of blocks in a queue at which writes are rejected. */
  queueBlocksMax: number
  everyMs?: number | undefined
}

type StoreGauge = Gauge<string> & { isLabelled: boolean }

/** About as often as Prometheus scrapes: less often would show steps, more often would load the stores for nothing. */
const lookEveryMs = 10_000

/**
 * Reads metrics of the stores every ten seconds for `/metrics`: the queue's depth and age, parts and disks of ClickHouse, dead
 * letters, connections. A request for `/metrics` waits for no store. While a store is down its metrics are absent: an old
 * value would look like a healthy one.
 */
export async function startStoreMetrics(settings: Settings): Promise<{ close(): Promise<void> }> {
  const { backend, queries, clickhouse, metricsRegistry, log, everyMs = lookEveryMs } = settings
  const gauges = createGauges(metricsRegistry)
  const queue = openQueueMetrics(metricsRegistry)
  queue.blocksMax.set(settings.queueBlocksMax)
  // One by one: all at once would open a connection for each.
  const producers = await Array.fromAsync(
    queueNames,
    async (name) => [name, await backend.openProducer(name)] as [QueueName, Producer],
  )

  const looks: Record<string, { look(): Promise<void>; forget: StoreGauge[] }> = {
    queue: {
      async look() {
        for (const [name, producer] of producers) {
          const [{ blocks, memoryShare }, oldestMs] = await Promise.all([producer.load(), producer.oldestReceivedMs()])
          queue.depth.set({ queue: name }, blocks)
          queue.memoryShare.set(memoryShare)
          const seconds = oldestMs === undefined ? 0 : Math.max(0, (Date.now() - oldestMs) / 1_000)
          gauges.oldest.set({ queue: name }, seconds)
        }
      },
      forget: [gauges.oldest],
    },
    clickhouse: {
      async look() {
        const state = await readClickHouseState(clickhouse)
        // Tables that are empty now must not keep their last values.
        for (const it of [gauges.parts, gauges.partsOfPartition, gauges.tableBytes, gauges.tableRows]) it.reset()
        for (const it of state.tables) {
          const { table } = it
          gauges.parts.set({ table }, it.parts)
          gauges.partsOfPartition.set({ table }, it.partsOfPartitionMax)
          gauges.tableBytes.set({ table }, it.bytes)
          gauges.tableRows.set({ table }, it.rows)
        }
        gauges.partsSlowAt.set(state.partsSlowAt)
        for (const { disk, freeBytes, totalBytes } of state.disks) {
          gauges.diskFree.set({ disk }, freeBytes)
          gauges.diskTotal.set({ disk }, totalBytes)
        }
        gauges.mutations.set(state.mutations.waiting)
        gauges.mutationsFailing.set(state.mutations.failing)
      },
      forget: [
        gauges.parts,
        gauges.partsOfPartition,
        gauges.tableBytes,
        gauges.tableRows,
        gauges.partsSlowAt,
        gauges.diskFree,
        gauges.diskTotal,
        gauges.mutations,
        gauges.mutationsFailing,
      ],
    },
    postgres: {
      async look() {
        const nowMs = Date.now()
        const [state, dead, dueMs] = await Promise.all([
          readPostgresState(queries),
          countDeadLetters(queries),
          findOldestDueMs(queries, nowMs),
        ])
        gauges.databaseBytes.set(state.databaseBytes)
        gauges.connections.set(state.connections)
        gauges.connectionsMax.set(state.connectionsMax)
        gauges.deadLetters.set(dead.letters)
        gauges.deadRows.set(dead.rows)
        gauges.webhookDue.set(dueMs === undefined ? 0 : (nowMs - dueMs) / 1_000)
      },
      forget: [
        gauges.databaseBytes,
        gauges.connections,
        gauges.connectionsMax,
        gauges.deadLetters,
        gauges.deadRows,
        gauges.webhookDue,
      ],
    },
  }

  async function lookAt([store, { look, forget }]: [string, (typeof looks)[string]]) {
    try {
      await look()
      gauges.up.set({ store }, 1)
    } catch (error) {
      log.debug({ err: error, store }, 'the metrics of a store could not be read')
      forget.forEach(forgetValues)
      gauges.up.set({ store }, 0)
    }
  }

  const lookAround = async () => void (await Promise.all(Object.entries(looks).map(lookAt)))
  // Not awaited: a slow store must not delay the start.
  const first = lookAround()
  const looking = repeat({
    everyMs,
    work: lookAround,
    onError: (error) => log.error({ err: error }, 'the metrics of the stores could not be set'),
  })
  return {
    async close() {
      await Promise.all([looking.close(), first])
    },
  }
}

/** Removes all values: after a reset, a gauge without labels would show 0. */
function forgetValues(gauge: StoreGauge) {
  gauge.reset()
  if (!gauge.isLabelled) gauge.remove()
}

function createGauges(metricsRegistry: Registry) {
  const registers = [metricsRegistry]
  const gauge = (name: string, help: string, labelNames: readonly string[] = []) => {
    const isLabelled = labelNames.length > 0
    const made: StoreGauge = Object.assign(new Gauge({ name, help, labelNames, registers }), { isLabelled })
    forgetValues(made)
    return made
  }
  return {
    up: gauge('svc_store_up', '1 if the store answered the last check, else 0', ['store']),
    oldest: gauge('svc_queue_oldest_seconds', 'The age of the oldest block in the queue', ['queue']),
    parts: gauge('svc_clickhouse_parts', 'Active parts of a table', ['table']),
    partsOfPartition: gauge('svc_clickhouse_partition_parts_max', 'Active parts of the partition with the most parts', [
      'table',
    ]),
    partsSlowAt: gauge(
      'svc_clickhouse_parts_slow_at',
      'The number of parts of a partition at which ClickHouse slows inserts down',
    ),
    tableBytes: gauge('svc_clickhouse_table_bytes', 'Bytes of a table on disk', ['table']),
    tableRows: gauge('svc_clickhouse_table_rows', 'Rows of a table, including repeated ones', ['table']),
    diskFree: gauge('svc_clickhouse_disk_free_bytes', 'Free bytes of a disk of ClickHouse', ['disk']),
    diskTotal: gauge('svc_clickhouse_disk_total_bytes', 'Bytes of a disk of ClickHouse', ['disk']),
    mutations: gauge('svc_clickhouse_mutations_waiting', 'Mutations that are not done'),
    mutationsFailing: gauge('svc_clickhouse_mutations_failing', 'Mutations that are not done and have failed'),
    databaseBytes: gauge('svc_postgres_database_bytes', 'Bytes of the database in Postgres'),
    connections: gauge('svc_postgres_connections', 'Connections to Postgres from all programs'),
    connectionsMax: gauge('svc_postgres_connections_max', 'The limit of connections to Postgres'),
    deadLetters: gauge('svc_dead_letters', 'Dead letters that wait to be replayed or discarded'),
    deadRows: gauge('svc_dead_letter_rows', 'Rows in dead letters'),
    webhookDue: gauge('svc_webhook_oldest_due_seconds', 'How long the oldest due webhook has waited'),
  }
}
