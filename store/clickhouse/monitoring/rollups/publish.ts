import { randomBytes } from 'node:crypto'
import type { ClickHouse } from '../../connection.ts'
import { ofModel, quote } from '../expressions.ts'
import type { ModelEvents } from '../scope.ts'
import { eventKinds } from '../tables.ts'
import type { Rollup } from './rollup.ts'
import { cellColumns, insertRollupFeatures, rollupsTable, rollupValuesTable } from './tables.ts'

/** The time it was made at, which tells the age of values that were never published, and random bits. */
export const createRollupId = () =>
  String((BigInt(Date.now()) << 20n) | BigInt(randomBytes(4).readUInt32BE() & 0xfffff))

/** Adds up the values of other rollups, or of all versions, as those of one rollup. */
export const insertRollupValues = ({ command, database }: ClickHouse, id: string, from: string) =>
  command(
    `INSERT INTO ${database}.${rollupValuesTable} (${cellColumns}, rollup, weight, least, most)
     SELECT ${cellColumns}, ${id}, sum(weight), min(least), max(most) FROM ${from} GROUP BY ${cellColumns}`,
  )

/** Publishes a rollup whose values are stored. */
export async function publishRollup(clickhouse: ClickHouse, model: ModelEvents, rollup: Rollup): Promise<void> {
  await clickhouse.command(insertRollupFeatures(clickhouse.database, `${ofModel(model)} AND rollup = ${rollup.id}`))
  await insertRollup(clickhouse, model, rollup, 0)
}

/** Hides a rollup from new reads. */
export const dropRollup = (clickhouse: ClickHouse, model: ModelEvents, rollup: Rollup) =>
  insertRollup(clickhouse, model, rollup, Date.now())

async function insertRollup(
  { command, database }: ClickHouse,
  model: ModelEvents,
  rollup: Rollup,
  dropped: number,
): Promise<void> {
  const { versions } = rollup
  const values = [
    ...[model.modelId, eventKinds[model.kind], rollup.low, rollup.high, rollup.id, dropped, rollup.level],
    ...[rollup.rows.events, rollup.rows.event_values, rollup.tombstones, rollup.first, rollup.last],
    `[${versions.map((it) => quote(it.version))}]`,
    ...(['events', 'first', 'last', 'received'] as const).map((name) => `[${versions.map((it) => it[name])}]`),
  ]
  await command(`INSERT INTO ${database}.${rollupsTable} (model_id, kind, low, high, id, dropped, level, event_rows, value_rows, voided,
      first, last, versions, counts, firsts, lasts, received) VALUES (${values.join(', ')})`)
}
