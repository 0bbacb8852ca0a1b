import { LRUCache } from 'lru-cache'
import { maxBigInt, minBigInt } from '../../../../runtime/bigint.ts'
import type { ClickHouse } from '../../connection.ts'
import { areAllIn, isAmong, listParts, type Part, type Range, type RangedPart, shardOf } from '../../parts.ts'
import type { Table } from '../../table.ts'
import type { Rollup } from './rollup.ts'

/** What is known of a part, which never changes: its rows of a model, and how many of them are in which rollup. */
type Counted = { range: Range | undefined; inRollups: Map<string, number> }

const countedMax = 100_000
const countedByStore = new WeakMap<ClickHouse, LRUCache<string, Counted>>()

/** Rows of a table; `isOf` says which. Rollups that are `known` are counted along with those that are asked for. */
type Rows = { table: Table; isOf: string; parts: Part[]; known: Rollup[] }

/**
 * Rows inside of rollups, and the parts that have some outside; undefined when parts went away meanwhile. A part is read
 * once for all rollups there are, whichever of them reads then go by.
 */
export function countRows(clickhouse: ClickHouse, rollups: Rollup[], rows: Rows) {
  return inTurn(clickhouse, `${rows.table.name} ${rows.isOf}`, () => count(clickhouse, rollups, rows))
}

const turnsByStore = new WeakMap<ClickHouse, Map<string, Promise<unknown>>>()

/** One after the other: reads that begin together would count the same parts. */
async function inTurn<T>(clickhouse: ClickHouse, key: string, run: () => Promise<T>): Promise<T> {
  const turns = turnsByStore.get(clickhouse) ?? new Map<string, Promise<unknown>>()
  turnsByStore.set(clickhouse, turns)
  const before = turns.get(key)
  const turn = (before ? before.then(run, run) : run()) as Promise<T>
  turns.set(key, turn)
  try {
    return await turn
  } finally {
    if (turns.get(key) === turn) turns.delete(key)
  }
}

async function count(clickhouse: ClickHouse, rollups: Rollup[], { table, isOf, parts, known }: Rows) {
  let countedParts = countedByStore.get(clickhouse)
  if (!countedParts) {
    const sizeCalculation = (it: Counted) => it.inRollups.size + 1
    countedParts = new LRUCache({ maxSize: countedMax, sizeCalculation })
    countedByStore.set(clickhouse, countedParts)
  }
  const toKey = (part: Part) => `${part.id} ${isOf}`
  const counted = new Map<Part, Counted>()
  const [unread, behind]: [Part[], Part[]] = [[], []]
  const missing = new Set<Rollup>()
  for (const part of parts) {
    const its = countedParts.get(toKey(part))
    counted.set(part, its ?? { range: undefined, inRollups: new Map() })
    if (!its) unread.push(part)
    else {
      const lacks = rollups.filter((it) => countByRange(its, it) === undefined)
      if (lacks.length > 0) behind.push(part)
      for (const it of lacks) missing.add(it)
    }
  }
  const from = (some: Part[]) => `FROM ${clickhouse.database}.${table.name} WHERE ${isOf} AND ${isAmong(some)}`
  const all = [...new Map([...known, ...rollups].map((it) => [it.id, it])).values()]
  for (const some of inReads(unread)) {
    const buckets = await readBuckets(clickhouse, some, from(some), all)
    for (const part of some) {
      const its = buckets.get(part) ?? []
      const rows = its.reduce((sum, it) => sum + it.rows, 0)
      const range = { rows, low: least(its.map((it) => it.low)), high: most(its.map((it) => it.high)) }
      addCounts(counted.set(part, { range: rows > 0 ? range : undefined, inRollups: new Map() }).get(part), all, its)
    }
  }
  const late = [...missing]
  for (const some of inReads(behind)) {
    const [low, high] = [least(late.map((it) => it.low)), most(late.map((it) => it.high))]
    const buckets = await readBuckets(clickhouse, some, `${from(some)} AND claim BETWEEN ${low} AND ${high}`, late)
    for (const part of some) addCounts(counted.get(part), late, buckets.get(part) ?? [])
  }
  // A part that has gone has no rows either.
  const read = [...unread, ...behind]
  if (read.length > 0 && !areAllIn(read, await listParts(clickhouse, [table.name]))) return undefined
  for (const [part, it] of counted) countedParts.set(toKey(part), it)

  const inside = (its: Counted) => rollups.reduce((sum, it) => sum + (countByRange(its, it) ?? 0), 0)
  const ranged = [...counted].flatMap(([part, it]) => (it.range ? [{ ...part, ...it.range, inside: inside(it) }] : []))
  return {
    inside: ranged.reduce((sum, it) => sum + it.inside, 0),
    outside: ranged
      .filter((it) => it.rows > it.inside)
      .map(({ name, id, shard, size }): Part => ({ name, id, shard, size })),
    parts: ranged satisfies RangedPart[],
  }
}

/** How many rows of a part are in a rollup, as far as that is known. */
function countByRange({ range, inRollups }: Counted, { id, low, high }: Rollup): number | undefined {
  if (!range || range.high < low || range.low > high) return 0
  return low <= range.low && range.high <= high ? range.rows : inRollups.get(id)
}

const least = (all: bigint[]) => all.reduce(minBigInt, all[0] ?? 0n)
const most = (all: bigint[]) => all.reduce(maxBigInt, 0n)

function addCounts(counted: Counted | undefined, rollups: Rollup[], buckets: Bucket[]): void {
  for (const { id, low, high } of rollups) {
    const its = buckets.filter((it) => it.from >= low && it.from <= high)
    counted?.inRollups.set(
      id,
      its.reduce((sum, it) => sum + it.rows, 0),
    )
  }
}

/** Many parts are read at once, but large ones by themselves: to tell by the name of its part where a row is costs more than to read it. */
const sizeAlone = 1_000_000

function inReads(parts: Part[]): Part[][] {
  const small = parts.filter((it) => it.size < sizeAlone)
  return [...(small.length > 0 ? [small] : []), ...parts.filter((it) => it.size >= sizeAlone).map((it) => [it])]
}

/** Rows whose numbers are from one bound of a rollup to the next. */
type Bucket = Range & { from: bigint }

/** How many rows of parts are between the bounds of rollups, which may lie within each other. */
async function readBuckets(
  clickhouse: ClickHouse,
  parts: Part[],
  from: string,
  rollups: Rollup[],
): Promise<Map<Part, Bucket[]>> {
  const bounds = [...new Set([0n, ...rollups.flatMap((it) => [it.low, it.high + 1n])])].toSorted((a, b) =>
    a < b ? -1 : 1,
  )
  const [only] = parts.length === 1 ? parts : []
  const rows = await clickhouse.rows<{
    name: string
    shard: number
    bound: string
    n: string
    low: string
    high: string
  }>(
    `SELECT ${only ? `'${only.name}'` : '_part'} AS name, ${only ? only.shard : shardOf(clickhouse)} AS shard,
       roundDown(claim, [${bounds}]::Array(UInt64)) AS bound, count() AS n, min(claim) AS low, max(claim) AS high
     ${from} GROUP BY name, shard, bound`,
  )
  const byName = new Map(parts.map((it) => [`${it.shard} ${it.name}`, it]))
  const buckets = rows.map(({ name, shard, bound, n, low, high }) => ({
    part: byName.get(`${shard} ${name}`) as Part,
    bucket: { from: BigInt(bound), rows: Number(n), low: BigInt(low), high: BigInt(high) },
  }))
  const ofParts = Map.groupBy(buckets, (it) => it.part)
  return new Map([...ofParts].map(([part, its]) => [part, its.map((it) => it.bucket)]))
}
