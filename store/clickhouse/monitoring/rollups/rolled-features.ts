import { LRUCache } from 'lru-cache'
import type { ClickHouse } from '../../connection.ts'
import { ofModel } from '../expressions.ts'
import type { FeatureName, ModelEvents } from '../scope.ts'
import { valueParts } from '../tables.ts'
import type { Rollup } from './rollup.ts'
import { rollupFeaturesTable } from './tables.ts'

/** How a rollup holds the values of a feature. */
export type RolledFeature = {
  /** The center its numbers were rounded around; undefined when they are exact. */
  center: number | undefined
  /** Whether its categories are hashes. */
  isHashed: boolean
}

type Row = { id: string; part: number; name: string; rounded: number; center: number; hashed: number }

const featuresMax = 100_000

/** Finds how rollups hold their features. Rollups never change, so answers are cached. */
export function createRolledFeatures(clickhouse: ClickHouse) {
  const cache = new LRUCache<string, Map<string, RolledFeature>>({
    maxSize: featuresMax,
    sizeCalculation: (it) => it.size + 1,
  })
  const toKey = (part: number, name: string) => `${part} ${name}`

  async function load(model: ModelEvents, rollups: Rollup[]) {
    const found = new Map(rollups.map((it) => [it.id, new Map<string, RolledFeature>()]))
    if (rollups.length === 0) return found
    const rows = await clickhouse.rows<Row>(
      `SELECT rollup AS id, part, name, is_rounded AS rounded, center, is_hashed AS hashed
       FROM ${clickhouse.database}.${rollupFeaturesTable}
       WHERE ${ofModel(model)} AND rollup IN (${rollups.map((it) => it.id)})`,
    )
    for (const { id, part, name, rounded, center, hashed } of rows) {
      found.get(id)?.set(toKey(part, name), { center: rounded ? center : undefined, isHashed: hashed === 1 })
    }
    for (const [id, features] of found) cache.set(id, features)
    return found
  }

  /** Resolves with a look-up of how a rollup of a model holds a feature; undefined when it has no value of it. */
  return async (model: ModelEvents, rollups: Rollup[]) => {
    const held = new Map(rollups.map((it) => [it.id, cache.get(it.id)]))
    const loaded = await load(
      model,
      rollups.filter((it) => !held.get(it.id)),
    )
    return ({ id }: Rollup, { part, name }: FeatureName) =>
      (held.get(id) ?? loaded.get(id))?.get(toKey(valueParts[part], name))
  }
}
