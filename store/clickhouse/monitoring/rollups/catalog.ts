import type { ClickHouse } from '../../connection.ts'
import { ofModel } from '../expressions.ts'
import type { ModelEvents } from '../scope.ts'
import { tombstonesTable } from '../tables.ts'
import type { Rollup } from './rollup.ts'
import { listRollups } from './rollups.ts'

/** What is to be left out of the events of a model, and what is summed up already. */
export type Catalog = {
  /** Most models never have one, and then no row is compared with them. */
  hasTombstones: boolean
  /** Rollups that left out all tombstoned events of their ranges. */
  rollups: Rollup[]
}

export const emptyCatalog: Catalog = { hasTombstones: false, rollups: [] }

/** With more tombstones than this, no rollup is used. */
const tombstonesMax = 10_000

export async function findCatalog(clickhouse: ClickHouse, model: ModelEvents): Promise<Catalog> {
  const [tombstones, rollups] = await Promise.all([
    clickhouse.rows<{ claim: string }>(
      `SELECT DISTINCT claim, place FROM ${clickhouse.database}.${tombstonesTable.name}
       WHERE ${ofModel(model)} LIMIT ${tombstonesMax + 1}`,
    ),
    listRollups(clickhouse, model),
  ])
  if (tombstones.length > tombstonesMax) return { hasTombstones: true, rollups: [] }
  const claims = tombstones.map((it) => BigInt(it.claim))
  return {
    hasTombstones: claims.length > 0,
    rollups: rollups.filter((it) => it.tombstones === claims.filter((at) => at >= it.low && at <= it.high).length),
  }
}
