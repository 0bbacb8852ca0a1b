import { createBatchLoader } from '../../../../runtime/batch-loader.ts'
import type { ClickHouse } from '../../connection.ts'
import { ofModels } from '../expressions.ts'
import type { ModelEvents } from '../scope.ts'
import { type EventKind, eventKinds, tombstonesTable } from '../tables.ts'
import type { Rollup } from './rollup.ts'
import { listRollupsOfEach } from './rollups.ts'

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

/** Finds the catalogs of models as of now. A page asks for dozens at once: those asked for during a query share the next one. */
export function createCatalogs(clickhouse: ClickHouse) {
  const load = createBatchLoader(async (keys: string[]) => {
    const catalogs = await findCatalogs(clickhouse, keys.map(toModel))
    return new Map(keys.map((key, at) => [key, catalogs[at]]))
  })
  return async (model: ModelEvents): Promise<Catalog> => (await load(toKey(model))) ?? emptyCatalog
}

const toKey = ({ modelId, kind }: ModelEvents) => `${modelId} ${kind}`

function toModel(key: string): ModelEvents {
  const [modelId = '', kind] = key.split(' ')
  return { modelId: BigInt(modelId), kind: kind as EventKind }
}

async function findCatalogs(clickhouse: ClickHouse, models: ModelEvents[]): Promise<Catalog[]> {
  const [tombstones, rollups] = await Promise.all([
    clickhouse.rows<{ model_id: string; kind: number; claim: string }>(
      `SELECT DISTINCT model_id, kind, claim, place FROM ${clickhouse.database}.${tombstonesTable.name}
       WHERE ${ofModels(models)} LIMIT ${tombstonesMax + 1} BY model_id, kind`,
    ),
    listRollupsOfEach(clickhouse, models),
  ])
  const ofEach = Map.groupBy(tombstones, (it) => `${it.model_id} ${it.kind}`)
  return models.map(({ modelId, kind }, at) => {
    const claims = (ofEach.get(`${modelId} ${eventKinds[kind]}`) ?? []).map((it) => BigInt(it.claim))
    if (claims.length > tombstonesMax) return { hasTombstones: true, rollups: [] }
    const isWhole = (it: Rollup) => it.tombstones === claims.filter((at) => at >= it.low && at <= it.high).length
    return { hasTombstones: claims.length > 0, rollups: (rollups[at] ?? []).filter(isWhole) }
  })
}
