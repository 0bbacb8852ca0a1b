import type { ClickHouse } from '../connection.ts'
import { storedValue, systemPointsTable } from './tables.ts'

/** The machine's resources, from the reported system metrics. Sizes are in bytes; null if not reported. */
export type Resources = { systemMetricNames: string[]; maxTotalMemory: number | null; totalRam: number | null }

export async function readResources(clickhouse: ClickHouse, experimentId: bigint): Promise<Resources> {
  const rows = await clickhouse.rows<{ metric: string; highest: number; newest: number }>(
    `SELECT metric, max(${storedValue} AS value) AS highest, argMax(value, received) AS newest
     FROM ${clickhouse.database}.${systemPointsTable.name} WHERE experiment_id = {experiment:UInt64}
     GROUP BY metric ORDER BY metric`,
    { experiment: experimentId },
  )
  const gpuTotals = rows.filter((it) => /^sys\.gpu\.\d+\.total_memory$/.test(it.metric)).map((it) => it.highest)
  return {
    systemMetricNames: rows.map((it) => it.metric),
    maxTotalMemory: gpuTotals.length === 0 ? null : Math.max(...gpuTotals),
    totalRam: rows.find((it) => it.metric === 'sys.ram.total')?.newest ?? null,
  }
}
