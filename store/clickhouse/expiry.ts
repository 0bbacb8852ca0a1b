import { setTimeout as sleep } from 'node:timers/promises'
import { onCluster, systemTable, toLocal } from './cluster/layout.ts'
import type { ClickHouse } from './connection.ts'
import { longInsert } from './long-inserts.ts'
import {
  eventFeaturesTable,
  eventsTable,
  eventValuesTable,
  selectChunkFeatures,
  selectEventFeatures,
} from './monitoring/tables.ts'
import { valueChunksTable } from './monitoring/value-chunks.ts'
import { chunksTable } from './points/chunks.ts'
import { byMetricTable } from './points/summaries/by-metric.ts'
import { selectSummary, selectSummaryOfChunks, summaryTable } from './points/summaries/summary.ts'
import { pointsTable } from './points/tables.ts'
import { sizeOf, tablesOf } from './row-counts.ts'
import type { Table } from './table.ts'

/**
 * Deletes rows by their time of acceptance. Lightweight deletes mark the rows, which is cheap and takes effect at once; merges
 * free the space later. Summaries and event features are then computed again from the remaining rows. Rollups of events notice
 * by their row counts that they are outdated.
 */

/** The statement returns once no read sees the rows. */
const lightweight = { lightweight_deletes_sync: 2, allow_nondeterministic_mutations: 1 }
const awaited = { mutations_sync: 2 }

export type Aged = { experimentId: bigint; oldestMs: number }

/** The experiments with rows accepted before a time, each with the time of its oldest row. */
export async function listAged(clickhouse: ClickHouse, table: Table, beforeMs: number): Promise<Aged[]> {
  const rows = await clickhouse.rows<{ id: string; oldest: string }>(
    `SELECT experiment_id AS id, min(received) AS oldest FROM (${tablesOf(table)
      .map((it) => `SELECT experiment_id, received FROM ${clickhouse.database}.${it.name} WHERE received < ${beforeMs}`)
      .join(' UNION ALL ')}) GROUP BY id ORDER BY id`,
  )
  return rows.map(({ id, oldest }) => ({ experimentId: BigInt(id), oldestMs: Number(oldest) }))
}

/** Deletes the rows of experiments that were accepted before a time. Returns the number of rows per experiment. */
export async function expireExperimentRows(
  clickhouse: ClickHouse,
  table: Table,
  { experimentIds, beforeMs }: { experimentIds: bigint[]; beforeMs: number },
): Promise<{ experimentId: bigint; rows: number }[]> {
  const { database } = clickhouse
  const ofExperiments = `experiment_id IN (${experimentIds.join(', ')})`
  const where = `${ofExperiments} AND received < ${beforeMs}`
  const counted = await clickhouse.rows<{ id: string; n: string }>(
    `SELECT id, sum(size) AS n FROM (${tablesOf(table)
      .map((it) => `SELECT experiment_id AS id, ${sizeOf(it)} AS size FROM ${database}.${it.name} FINAL WHERE ${where}`)
      .join(' UNION ALL ')}) GROUP BY id`,
  )
  for (const { name } of tablesOf(table)) {
    await clickhouse.command(`DELETE FROM ${toRowsOf(clickhouse, name)} WHERE ${where}`, lightweight)
  }
  if (table.name === pointsTable.name) {
    await rederive(clickhouse, [summaryTable, byMetricTable], ofExperiments, [
      selectSummary(`${database}.${table.name}`, ofExperiments),
      selectSummaryOfChunks(`${database}.${chunksTable.name}`, ofExperiments),
    ])
  }
  return counted.map(({ id, n }) => ({ experimentId: BigInt(id), rows: Number(n) }))
}

/**
 * Deletes the events of a model that were accepted before a time, and returns their number. Deletes their values first,
 * because the values are found by their events. Their prediction ids stay taken.
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
  // An interrupted sweep may have deleted all events, and stopped before the derived rows.
  if (events === 0 && !isAgain) return 0
  await clickhouse.command(
    `DELETE FROM ${toRowsOf(clickhouse, eventValuesTable.name)}
     WHERE ${ofModel} AND claim <= ${found?.highest} AND (claim, place) IN (
       SELECT claim, place FROM ${database}.${toLocal(clickhouse, eventsTable.name)} WHERE ${isOld})`,
    lightweight,
  )
  // All events of a chunk were accepted at once.
  await clickhouse.command(`DELETE FROM ${toRowsOf(clickhouse, valueChunksTable.name)} WHERE ${isOld}`, lightweight)
  await clickhouse.command(`DELETE FROM ${toRowsOf(clickhouse, eventsTable.name)} WHERE ${isOld}`, lightweight)
  await rederive(clickhouse, [eventFeaturesTable], ofModel, [
    selectEventFeatures(`${database}.${eventValuesTable.name}`, ofModel),
    selectChunkFeatures(`${database}.${valueChunksTable.name}`, ofModel),
  ])
  return events
}

/** The table to delete rows from. Events are on the same shard as their values. */
const toRowsOf = (clickhouse: ClickHouse, table: string) =>
  `${clickhouse.database}.${toLocal(clickhouse, table)}${onCluster(clickhouse)}`

const pollMs = 100

/**
 * Recomputes the matching rows of a derived table, and of those that views fill from it. A running insert may have reached the derived table but not yet the
 * other one, so this waits for inserts that began earlier. Later inserts add to both, and the derived tables tolerate
 * repeated rows.
 */
async function rederive(
  clickhouse: ClickHouse,
  [table, ...fed]: [string, ...string[]],
  where: string,
  selects: string[],
): Promise<void> {
  const { database } = clickhouse
  for (const it of [table, ...fed]) {
    await clickhouse.command(`ALTER TABLE ${toRowsOf(clickhouse, it)} DELETE WHERE ${where}`, awaited)
  }
  const running = await listInserts(clickhouse)
  while (running.size > 0) {
    await sleep(pollMs)
    const now = await listInserts(clickhouse)
    for (const id of running) if (!now.has(id)) running.delete(id)
  }
  for (const it of selects) await clickhouse.command(`INSERT INTO ${database}.${table} ${it}`, longInsert)
}

async function listInserts(clickhouse: ClickHouse): Promise<Set<string>> {
  const rows = await clickhouse.rows<{ id: string }>(
    `SELECT query_id AS id FROM ${systemTable(clickhouse, 'processes')} WHERE query_kind = 'Insert'`,
  )
  return new Set(rows.map((it) => it.id))
}
