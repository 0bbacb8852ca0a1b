import { setTimeout as sleep } from 'node:timers/promises'
import { onCluster, systemTable, toLocal } from './cluster/layout.ts'
import type { ClickHouse } from './connection.ts'
import { longInsert } from './long-inserts.ts'
import { eventFeaturesTable, eventsTable, eventValuesTable, selectEventFeatures } from './monitoring/tables.ts'
import { selectSummary, summaryTable } from './points/summary.ts'
import { pointsTable } from './points/tables.ts'
import type { Table } from './table.ts'

/**
 * Deletes what was accepted long ago. Rows are marked as deleted, which costs little and takes effect at once; their space
 * comes back as ClickHouse merges their parts. What was derived of them is made anew of what is left: a summary is the least,
 * the greatest and the last of points that are still there. Rollups of events see by their counts that they no longer hold.
 */

/** It resolves when no read sees the rows any more. */
const lightly = { lightweight_deletes_sync: 2, allow_nondeterministic_mutations: 1 }
const whole = { mutations_sync: 2 }

export type Aged = { experimentId: bigint; oldestMs: number }

/** The experiments that have rows accepted before a time, and when the oldest of these was. */
export async function listAged(clickhouse: ClickHouse, table: Table, beforeMs: number): Promise<Aged[]> {
  const rows = await clickhouse.rows<{ id: string; oldest: string }>(
    `SELECT experiment_id AS id, min(received) AS oldest FROM ${clickhouse.database}.${table.name}
     WHERE received < ${beforeMs} GROUP BY id ORDER BY id`,
  )
  return rows.map(({ id, oldest }) => ({ experimentId: BigInt(id), oldestMs: Number(oldest) }))
}

/** Deletes rows of experiments that were accepted before a time, and answers how many there were of each. */
export async function expireExperimentRows(
  clickhouse: ClickHouse,
  table: Table,
  { experimentIds, beforeMs }: { experimentIds: bigint[]; beforeMs: number },
): Promise<{ experimentId: bigint; rows: number }[]> {
  const { database } = clickhouse
  const ofExperiments = `experiment_id IN (${experimentIds.join(', ')})`
  const where = `${ofExperiments} AND received < ${beforeMs}`
  const counted = await clickhouse.rows<{ id: string; n: string }>(
    `SELECT experiment_id AS id, count() AS n FROM ${database}.${table.name} FINAL WHERE ${where} GROUP BY id`,
  )
  await clickhouse.command(`DELETE FROM ${toRowsOf(clickhouse, table.name)} WHERE ${where}`, lightly)
  if (table.name === pointsTable.name) {
    await rederive(clickhouse, summaryTable, ofExperiments, selectSummary(`${database}.${table.name}`, ofExperiments))
  }
  return counted.map(({ id, n }) => ({ experimentId: BigInt(id), rows: Number(n) }))
}

/**
 * Deletes events of a model that were accepted before a time, with their values: these first, as it is by their events that
 * they are known. Answers how many events there were. Their prediction ids stay taken.
 */
export async function expireEvents(
  clickhouse: ClickHouse,
  { modelId, kind, beforeMs, isAgain }: { modelId: bigint; kind: number; beforeMs: number; isAgain: boolean },
): Promise<number> {
  const { database } = clickhouse
  const ofModel = `model_id = ${modelId} AND kind = ${kind}`
  const isOld = `${ofModel} AND received < ${beforeMs}`
  const [found] = await clickhouse.rows<{ n: string; highest: string }>(
    `SELECT uniqExact(claim, place) AS n, max(claim) AS highest FROM ${database}.${eventsTable.name} WHERE ${isOld}`,
  )
  const events = Number(found?.n ?? 0)
  // One that was broken off may have deleted them all, and nothing after that.
  if (events === 0 && !isAgain) return 0
  await clickhouse.command(
    `DELETE FROM ${toRowsOf(clickhouse, eventValuesTable.name)}
     WHERE ${ofModel} AND claim <= ${found?.highest} AND (claim, place) IN (
       SELECT claim, place FROM ${database}.${toLocal(clickhouse, eventsTable.name)} WHERE ${isOld})`,
    lightly,
  )
  await clickhouse.command(`DELETE FROM ${toRowsOf(clickhouse, eventsTable.name)} WHERE ${isOld}`, lightly)
  await rederive(
    clickhouse,
    eventFeaturesTable,
    ofModel,
    selectEventFeatures(`${database}.${eventValuesTable.name}`, ofModel),
  )
  return events
}

/** Where the rows of a table are, for a statement that deletes some; events lie on one shard with their values. */
const toRowsOf = (clickhouse: ClickHouse, table: string) =>
  `${clickhouse.database}.${toLocal(clickhouse, table)}${onCluster(clickhouse)}`

const pollMs = 100

/**
 * Makes a part of a derived table anew. An insert may have put its rows into the derived table already and not yet into the
 * other one, so those that began before are waited for; later ones add what they add to both, which may come twice.
 */
async function rederive(clickhouse: ClickHouse, table: string, where: string, select: string): Promise<void> {
  const { database } = clickhouse
  await clickhouse.command(`ALTER TABLE ${toRowsOf(clickhouse, table)} DELETE WHERE ${where}`, whole)
  const running = await listInserts(clickhouse)
  while (running.size > 0) {
    await sleep(pollMs)
    const now = await listInserts(clickhouse)
    for (const id of running) if (!now.has(id)) running.delete(id)
  }
  await clickhouse.command(`INSERT INTO ${database}.${table} ${select}`, longInsert)
}

async function listInserts(clickhouse: ClickHouse): Promise<Set<string>> {
  const rows = await clickhouse.rows<{ id: string }>(
    `SELECT query_id AS id FROM ${systemTable(clickhouse, 'processes')} WHERE query_kind = 'Insert'`,
  )
  return new Set(rows.map((it) => it.id))
}
