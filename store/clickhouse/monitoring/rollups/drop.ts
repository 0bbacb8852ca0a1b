import { onCluster, toLocal } from '../../cluster/layout.ts'
import type { ClickHouse } from '../../connection.ts'
import type { EventReader } from '../reader.ts'
import type { ModelEvents } from '../scope.ts'
import { storedEvents, storedValues } from '../stored.ts'
import { dropRollup } from './publish.ts'
import type { Rollup } from './rollup.ts'
import { chooseRollups, listRollups } from './rollups.ts'
import { rollupFeaturesTable, rollupsTable, rollupValuesTable, rollupVersionValuesTable } from './tables.ts'

/** Drops the rollups of a model that are stale: rows were added to their ranges, or tombstones. */
export async function dropStale(reader: EventReader, model: ModelEvents): Promise<void> {
  const all = await listRollups(reader.clickhouse, model)
  const widest = chooseRollups(all, () => true)
  if (await areCurrent(reader, model, widest)) return
  for (const it of all) {
    if (!(await areCurrent(reader, model, [it]))) await dropRollup(reader.clickhouse, model, it)
  }
}

async function areCurrent({ findCatalog, listParts, findCurrent }: EventReader, model: ModelEvents, rollups: Rollup[]) {
  if (rollups.length === 0) return true
  const { rollups: known } = await findCatalog(model)
  if (!rollups.every((it) => known.some(({ id }) => id === it.id))) return false
  for (const stored of [storedEvents, storedValues]) {
    const parts = await listParts(stored.tables.map((it) => it.name))
    const current = await findCurrent(rollups, { ...stored, model, parts, known })
    // Undefined when a part went away, which says nothing: the next round looks again.
    if (current && current.rollups.length < rollups.length) return false
  }
  return true
}

/** Deletes rollups that were dropped a while ago, and with them values of rollups that were never published. */
export async function sweepRollups(clickhouse: ClickHouse): Promise<void> {
  const { database } = clickhouse
  const now = Date.now()
  const dropped = await listIds(
    clickhouse,
    `SELECT id FROM ${database}.${rollupsTable} FINAL WHERE dropped BETWEEN 1 AND ${now - droppedKeptMs}`,
  )
  // A deletion costs something even if it deletes nothing.
  if (dropped.length === 0) return
  const unfinished = await listIds(
    clickhouse,
    `SELECT DISTINCT rollup AS id FROM ${database}.${rollupValuesTable}
     WHERE rollup < ${BigInt(now - unfinishedKeptMs) << 20n} AND rollup NOT IN (SELECT id FROM ${database}.${rollupsTable})`,
  )
  // By id: each replica evaluates the condition for itself, and all must delete the same rows.
  const remove = (table: string, condition: string) =>
    clickhouse.command(
      `DELETE FROM ${database}.${toLocal(clickhouse, table)}${onCluster(clickhouse)} WHERE ${condition}`,
    )
  for (const table of [rollupValuesTable, rollupVersionValuesTable, rollupFeaturesTable]) {
    await remove(table, `rollup IN (${[...dropped, ...unfinished].join(', ')})`)
  }
  await remove(rollupsTable, `id IN (${dropped.join(', ')})`)
}

/** So many are deleted at once; more wait for the next time. */
const sweptMax = 5_000

async function listIds({ rows }: ClickHouse, query: string): Promise<string[]> {
  return (await rows<{ id: string }>(`${query} LIMIT ${sweptMax}`)).map((it) => it.id)
}

/** Longer than a read takes, and than making a rollup. */
const droppedKeptMs = 600_000
const unfinishedKeptMs = 86_400_000
