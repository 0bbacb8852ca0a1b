import { LRUCache } from 'lru-cache'
import type { ClickHouse } from '../../connection.ts'
import { findShared, isAmong, type Part, type RangedPart } from '../../parts.ts'
import type { Table } from '../../table.ts'
import { countRows } from './counts.ts'
import type { Rollup } from './rollup.ts'
import { rollupFeaturesTable, rollupsTable } from './tables.ts'

type Kind = { modelId: bigint; kind: number }

const isOf = ({ modelId, kind }: Kind) => `model_id = ${modelId} AND kind = ${kind}`

type Row = { level: number } & Record<
  'id' | 'low' | 'high' | 'event_rows' | 'value_rows' | 'voided' | 'first' | 'last',
  string
> &
  Record<'versions' | 'counts' | 'firsts' | 'lasts' | 'received', string[]>

/** The rollups of one kind of events of a model, from low to high, the wider first; stale ones may be among them. */
export async function listRollups(clickhouse: ClickHouse, { modelId, kind }: Kind): Promise<Rollup[]> {
  const rows = await clickhouse.rows<Row>(
    `SELECT * EXCEPT (model_id, kind) FROM ${clickhouse.database}.${rollupsTable} FINAL
     WHERE model_id = ${modelId} AND kind = ${kind} AND dropped = 0 ORDER BY low, high DESC, id DESC`,
  )
  return rows.map((it) => ({
    id: it.id,
    level: it.level,
    low: BigInt(it.low),
    high: BigInt(it.high),
    rows: { events: Number(it.event_rows), event_values: Number(it.value_rows) },
    voided: Number(it.voided),
    first: Number(it.first),
    last: Number(it.last),
    versions: it.versions.map((version, at) => ({
      version,
      events: Number(it.counts[at]),
      first: BigInt(it.firsts[at] as string),
      last: BigInt(it.lasts[at] as string),
      received: BigInt(it.received[at] as string),
    })),
  }))
}

/** Of rollups that lie side by side or within each other those that are `wanted`, the wider before what is within them. */
export function chooseRollups(rollups: Rollup[], isWanted: (rollup: Rollup) => boolean): Rollup[] {
  const chosen: Rollup[] = []
  for (const it of rollups) {
    const last = chosen.at(-1)
    if ((last === undefined || it.low > last.high) && isWanted(it)) chosen.push(it)
  }
  return chosen
}

/** The ranges of rollups, with neighbours as one. */
function toRanges(rollups: Rollup[]): [low: bigint, high: bigint][] {
  const ranges: [bigint, bigint][] = []
  for (const { low, high } of rollups) {
    const last = ranges.at(-1)
    if (last && low === last[1] + 1n) last[1] = high
    else ranges.push([low, high])
  }
  return ranges
}

/** The condition on rows that they are in none of the rollups. */
export function isOutside(rollups: Rollup[]): string {
  if (rollups.length === 0) return 'true'
  const outside: string[] = []
  let from = 0n
  for (const [low, high] of toRanges(rollups)) {
    if (low > from) outside.push(`claim BETWEEN ${from} AND ${low - 1n}`)
    from = high + 1n
  }
  // Bounds on both sides are what an index of granules is looked up by; a negation is not.
  return `(${[...outside, `claim >= ${from}`].join(' OR ')})`
}

/** All rows of a table, of one kind of events of a model; and all rollups that there are of them, which are counted together. */
type Whole = Kind & { table: Table; parts: Part[]; known: Rollup[] }

/** Rollups that hold all there is in their ranges, and the parts that have rows outside of them. */
export type Standing = { rollups: Rollup[]; outside: Part[] }

const attemptsMax = 3

/**
 * Leaves out rollups that something came to after they were made: the last ones, where late events are, or all. Undefined
 * when parts went away meanwhile.
 */
export async function keepStanding(
  clickhouse: ClickHouse,
  rollups: Rollup[],
  whole: Whole,
): Promise<Standing | undefined> {
  let left = rollups
  for (let attempt = 0; attempt < attemptsMax && left.length > 0; attempt++) {
    const counted = await countRows(clickhouse, left, { ...whole, isOf: isOf(whole) })
    if (!counted) return undefined
    const surplus = counted.inside - left.reduce((sum, it) => sum + (it.rows[whole.table.name] ?? 0), 0)
    if (surplus === 0 || (surplus > 0 && surplus === (await countRepeated(clickhouse, left, whole, counted.parts)))) {
      return { rollups: left, outside: counted.outside }
    }
    left = left.slice(0, attempt === 0 ? -1 : Math.floor(left.length / 2))
  }
  return { rollups: [], outside: whole.parts }
}

/** With more rows than this that may be there twice, rollups are not used. */
const sharedRowsMax = 2_000_000

/** How many rows inside of rollups are there once more, because they were delivered twice and not merged yet. */
async function countRepeated(
  clickhouse: ClickHouse,
  rollups: Rollup[],
  { table, ...model }: Whole,
  parts: RangedPart[],
): Promise<number | undefined> {
  const shared = findShared(parts)
  if (shared.rows > sharedRowsMax) return undefined
  if (shared.ranges.length === 0) return 0
  const isShared = shared.ranges.map(([low, high]) => `claim BETWEEN ${low} AND ${high}`).join(' OR ')
  const key = [...table.primaryKey, ...table.identity].join(', ')
  const [row] = await clickhouse.rows<{ n: string }>(
    `SELECT sum(c - 1) AS n FROM (
       SELECT count() AS c FROM ${clickhouse.database}.${table.name}
       WHERE ${isOf(model)} AND ${isAmong(parts)} AND (${isShared}) AND NOT ${isOutside(rollups)} GROUP BY ${key} HAVING c > 1)`,
  )
  return Number(row?.n ?? 0)
}

/** How a rollup holds the values of a feature. */
export type RolledFeature = {
  /** Around which its numbers were rounded; undefined when they are as they were. */
  center: number | undefined
  /** Whether its categories are hashes. */
  isHashed: boolean
}

const featuresMax = 100_000
const featuresByStore = new WeakMap<ClickHouse, LRUCache<string, Map<string, RolledFeature>>>()

export const toFeatureKey = (part: number, name: string) => `${part} ${name}`

/** How rollups of one kind of a model hold their features, by part and name. Rollups never change. */
export async function findRolledFeatures(
  clickhouse: ClickHouse,
  { modelId, kind }: Kind,
  rollups: Rollup[],
): Promise<Map<Rollup, Map<string, RolledFeature>>> {
  let known = featuresByStore.get(clickhouse)
  if (!known) {
    known = new LRUCache({ maxSize: featuresMax, sizeCalculation: (it) => it.size + 1 })
    featuresByStore.set(clickhouse, known)
  }
  const unknown = rollups.filter((it) => !known.has(it.id))
  const found = new Map<string, Map<string, RolledFeature>>(unknown.map((it) => [it.id, new Map()]))
  if (unknown.length > 0) {
    const rows = await clickhouse.rows<{
      id: string
      part: number
      name: string
      rounded: number
      center: number
      hashed: number
    }>(
      `SELECT rollup AS id, part, name, is_rounded AS rounded, center, is_hashed AS hashed
       FROM ${clickhouse.database}.${rollupFeaturesTable}
       WHERE model_id = ${modelId} AND kind = ${kind} AND rollup IN (${unknown.map((it) => it.id)})`,
    )
    for (const { id, part, name, rounded, center, hashed } of rows) {
      const feature = { center: rounded ? center : undefined, isHashed: hashed === 1 }
      found.get(id)?.set(toFeatureKey(part, name), feature)
    }
    for (const [id, features] of found) known.set(id, features)
  }
  return new Map(rollups.map((it) => [it, found.get(it.id) ?? known.get(it.id) ?? new Map()]))
}
