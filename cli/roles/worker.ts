import { openClickHouse } from '../../store/clickhouse/connection.ts'
import { createEventReader } from '../../store/clickhouse/monitoring/reader.ts'
import { startAlerts } from '../../workers/alerts/alerts.ts'
import { startRollups } from '../../workers/rollups/rollups.ts'
import { startStoreMetrics } from '../../workers/store-metrics.ts'
import { startWorker } from '../../workers/worker.ts'
import { toClickHouse } from '../settings.ts'
import type { Parts } from './parts.ts'

/** Moves the queue into ClickHouse and runs the background jobs. */
export async function openWorker(parts: Parts): Promise<void> {
  const {
    stores,
    settings,
    intervals,
    database,
    clickhouse,
    eventReader,
    backend,
    metricsRegistry,
    tracing,
    closers,
    log,
    nameQueueError,
  } = parts
  const worker = await nameQueueError(
    startWorker({
      backend,
      queries: database,
      clickhouse,
      deletedKeptForMs: settings.deletedKeptForMs,
      auditKeptDays: settings.auditKeptDays,
      ingestionErrorsKeptDays: settings.ingestionErrorsKeptDays,
      sweepEveryMs: intervals.sweepMs,
      metricsRegistry,
      tracing,
      log,
    }),
  )
  closers.push(() => worker.close())
  const storeMetrics = await nameQueueError(
    startStoreMetrics({
      backend,
      queries: database,
      clickhouse,
      queueBlocksMax: settings.queueMax.blocks,
      metricsRegistry,
      log,
      everyMs: intervals.storeMetricsMs,
    }),
  )
  closers.push(() => storeMetrics.close())
  const alerts = startAlerts({ database, clickhouse, eventReader, metricsRegistry, log })
  closers.push(() => alerts.close())
  const background = openClickHouse({ ...toClickHouse(stores), isBackground: true })
  closers.push(() => background.close())
  const rollups = startRollups({ database, eventReader: createEventReader(background), log })
  closers.push(() => rollups.close())
}
