import { startAlerts } from '../../workers/alerts/alerts.ts'
import { startRollups } from '../../workers/rollups/rollups.ts'
import { startStoreFigures } from '../../workers/store-metrics.ts'
import { startWorker } from '../../workers/worker.ts'
import type { Parts } from './parts.ts'

/** Stores what the queue has, and does what there is to do in the background. */
export async function openWorker(parts: Parts): Promise<void> {
  const { settings, database, clickhouse, backend, figures, tracing, closers, log, nameQueueFault } = parts
  const worker = await nameQueueFault(
    startWorker({
      backend,
      queries: database,
      clickhouse,
      deletedKeptForMs: settings.deletedKeptForMs,
      ingestionErrorsKeptDays: settings.ingestionErrorsKeptDays,
      figures,
      tracing,
      log,
    }),
  )
  closers.push(() => worker.close())
  const storeFigures = await nameQueueFault(
    startStoreFigures({
      backend,
      queries: database,
      clickhouse,
      queueBlocksMax: settings.queueMax.blocks,
      figures,
      log,
    }),
  )
  closers.push(() => storeFigures.close())
  const alerts = startAlerts({ database, clickhouse, figures, log })
  closers.push(() => alerts.close())
  const rollups = startRollups({ database, clickhouse, log })
  closers.push(() => rollups.close())
}
