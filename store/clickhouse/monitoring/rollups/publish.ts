import { randomBytes } from 'node:crypto'
import type { ClickHouse } from '../../connection.ts'
import { type EventScope, quote } from '../scope.ts'
import { eventKinds } from '../tables.ts'
import type { Rollup } from './rollup.ts'
import { cellColumns, insertRollupFeatures, rollupsTable, rollupValuesTable } from './tables.ts'

/** Whose rollups they are: those of one kind of events of a model. */
export type RolledModel = Pick<EventScope, 'modelId' | 'kind'>

/** The time it was made at, which tells what nobody finished, and a number that no other one has. */
export const createRollupId = () =>
  String((BigInt(Date.now()) << 20n) | BigInt(randomBytes(4).readUInt32BE() & 0xfffff))

/** Adds up the values of other rollups, or those of versions, as those of one. */
export const insertRollupValues = ({ command, database }: ClickHouse, id: string, from: string) =>
  command(
    `INSERT INTO ${database}.${rollupValuesTable} (${cellColumns}, rollup, weight, least, most)
     SELECT ${cellColumns}, ${id}, sum(weight), min(least), max(most) FROM ${from} GROUP BY ${cellColumns}`,
  )

/** Publishes a rollup whose values are there. */
export async function publishRollup(clickhouse: ClickHouse, model: RolledModel, rollup: Rollup): Promise<void> {
  const where = `model_id = ${model.modelId} AND kind = ${eventKinds[model.kind]} AND rollup = ${rollup.id}`
  await clickhouse.command(insertRollupFeatures(clickhouse.database, where))
  await insertRollup(clickhouse, model, rollup, 0)
}

/** Has no new read use it. */
export const dropRollup = (clickhouse: ClickHouse, model: RolledModel, rollup: Rollup) =>
  insertRollup(clickhouse, model, rollup, Date.now())

async function insertRollup(
  { command, database }: ClickHouse,
  model: RolledModel,
  rollup: Rollup,
  dropped: number,
): Promise<void> {
  const { versions } = rollup
  const values = [
    ...[model.modelId, eventKinds[model.kind], rollup.low, rollup.high, rollup.id, dropped, rollup.level],
    ...[rollup.rows.events, rollup.rows.event_values, rollup.voided, rollup.first, rollup.last],
    `[${versions.map((it) => quote(it.version))}]`,
    ...(['events', 'first', 'last', 'received'] as const).map((name) => `[${versions.map((it) => it[name])}]`),
  ]
  await command(`INSERT INTO ${database}.${rollupsTable} (model_id, kind, low, high, id, dropped, level, event_rows, value_rows, voided,
      first, last, versions, counts, firsts, lasts, received) VALUES (${values.join(', ')})`)
}
