import { LRUCache } from 'lru-cache'
import { maxBigInt, minBigInt } from '../../../runtime/bigint.ts'
import type { ClickHouse } from '../connection.ts'
import { areAllIn, type createPartsList, isAmong, type Part, type Range, type RangedPart, shardOf } from '../parts.ts'
import type { Rollup } from './rollups/rollup.ts'
import { valueChunksTable } from './value-chunks.ts'

/** The rows of some parts that meet the condition `whole`, of one table or of those that values are stored in. */
type Rows = { whole: string; parts: Part[] }

/** The known facts about such rows of one part, which never change. */
type PartRows = {
  /** Undefined when it has none. */
  range: Range | undefined
  /** Its rows by rollup, as far as they were counted. */
  inRollups: Map<string, number>
}

const knownMax = 200_000
/** Small parts are read together. A large one is read alone: naming the part of each row costs more than reading the row. */
const aloneRowsMin = 1_000_000

/**
 * Each claim with its rows; of chunks, with its values. Rows of values are counted in advance (`claim_counts`), which only a query of
 * this form makes use of.
 */
export const selectClaims = (clickhouse: ClickHouse, table: string, where: string, part: string) =>
  `SELECT ${part} AS part_name, ${shardOf(clickhouse)} AS shard, claim, ${countOf(table)} AS n
   FROM ${clickhouse.database}.${table} WHERE ${where} GROUP BY part_name, shard, claim`

const countOf = (table: string) => (table === valueChunksTable.name ? 'sum(count)' : 'count()')

const byTable = (parts: Part[]) => [...Map.groupBy(parts, (it) => it.table)]

/** Finds the ranges of claims in parts, and counts their rows in rollups. Reads each part once per condition. */
export function createPartRows(clickhouse: ClickHouse, listParts: ReturnType<typeof createPartsList>) {
  const cache = new LRUCache<string, PartRows>({ maxSize: knownMax, sizeCalculation: (it) => it.inRollups.size + 1 })
  const toKey = (part: Part, whole: string) => `${part.id} ${whole}`
  const inTurn = createTurns()

  /** A part that was removed has no rows, so its result is void and must be read again. */
  const areThere = async (rows: Rows[]) =>
    areAllIn(
      rows.flatMap((it) => it.parts),
      await listParts([...new Set(rows.flatMap((it) => it.parts.map((part) => part.table)))]),
    )

  async function readRanges(unread: Rows[]): Promise<Map<Part, Range>[]> {
    type Row = { at: number; of: string; shard: number; part_name: string; low: string; high: string; n: string }
    const rows = await clickhouse.rows<Row>(
      unread
        .flatMap(({ whole, parts }, at) =>
          byTable(parts).map(
            ([table, its]) => `SELECT ${at} AS at, '${table}' AS of, shard, part_name,
            toString(min(claim)) AS low, toString(max(claim)) AS high, sum(claims.n) AS n
          FROM (${selectClaims(clickhouse, table, `${whole} AND ${isAmong(its)}`, '_part')}) AS claims GROUP BY shard, part_name`,
          ),
        )
        .join(' UNION ALL '),
    )
    const found = new Map(rows.map((it) => [`${it.at} ${it.of} ${it.shard} ${it.part_name}`, it]))
    return unread.map(({ parts }, at) => {
      const ranged = parts.flatMap((part): [Part, Range][] => {
        const row = found.get(`${at} ${part.table} ${part.shard} ${part.name}`)
        return row ? [[part, { low: BigInt(row.low), high: BigInt(row.high), rows: Number(row.n) }]] : []
      })
      return new Map(ranged)
    })
  }

  /** Counts the rows of parts of one table between the bounds of rollups, which may be nested. */
  async function readBuckets(parts: Part[], where: string, rollups: Rollup[]): Promise<Map<Part, Bucket[]>> {
    const [{ table }, ...others] = parts as [Part, ...Part[]]
    const bounds = [...new Set([0n, ...rollups.flatMap((it) => [it.low, it.high + 1n])])].toSorted((a, b) =>
      a < b ? -1 : 1,
    )
    const rows = await clickhouse.rows<Record<'name' | 'bound' | 'n' | 'low' | 'high', string> & { shard: number }>(
      `SELECT part_name AS name, shard, roundDown(claim, [${bounds}]::Array(UInt64)) AS bound, sum(claims.n) AS n,
         min(claim) AS low, max(claim) AS high
       FROM (${selectClaims(clickhouse, table, `${where} AND ${isAmong(parts)}`, others.length === 0 ? `'${parts[0]?.name}'` : '_part')}) AS claims
       GROUP BY name, shard, bound`,
    )
    const byName = new Map(parts.map((it) => [`${it.shard} ${it.name}`, it]))
    const buckets = rows.map(({ name, shard, bound, n, low, high }) => ({
      part: byName.get(`${shard} ${name}`) as Part,
      bucket: { from: BigInt(bound), rows: Number(n), low: BigInt(low), high: BigInt(high) },
    }))
    const ofParts = Map.groupBy(buckets, (it) => it.part)
    return new Map([...ofParts].map(([part, its]) => [part, its.map((it) => it.bucket)]))
  }

  async function count(rollups: Rollup[], known: Rollup[], rows: Rows) {
    const { whole, parts } = rows
    const counted = new Map<Part, PartRows>()
    const [unread, behind]: [Part[], Part[]] = [[], []]
    const missing = new Set<Rollup>()
    for (const part of parts) {
      const its = cache.get(toKey(part, whole))
      if (its) counted.set(part, its)
      else unread.push(part)
      const lacks = its ? rollups.filter((it) => countInRollup(its, it) === undefined) : []
      if (lacks.length > 0) behind.push(part)
      for (const it of lacks) missing.add(it)
    }
    const all = [...new Map([...known, ...rollups].map((it) => [it.id, it])).values()]
    for (const some of inReads(unread)) {
      const buckets = await readBuckets(some, whole, all)
      for (const part of some) {
        const its = buckets.get(part) ?? []
        counted.set(part, { range: toRange(its), inRollups: sumByRollup(all, its) })
      }
    }
    const late = [...missing]
    for (const some of inReads(behind)) {
      const [low, high] = [least(late.map((it) => it.low)), most(late.map((it) => it.high))]
      const where = `${whole} AND claim BETWEEN ${low} AND ${high}`
      const buckets = await readBuckets(some, where, late)
      for (const part of some) {
        const { range, inRollups } = counted.get(part) as PartRows
        const more = sumByRollup(late, buckets.get(part) ?? [])
        counted.set(part, { range, inRollups: new Map([...inRollups, ...more]) })
      }
    }
    const read = [...unread, ...behind]
    if (read.length > 0 && !(await areThere([{ ...rows, parts: read }]))) return undefined
    for (const part of read) cache.set(toKey(part, whole), counted.get(part) as PartRows)

    const inside = (its: PartRows) => rollups.reduce((sum, it) => sum + (countInRollup(its, it) ?? 0), 0)
    const ranged = [...counted].flatMap(([part, it]) =>
      it.range ? [{ part: { ...part, ...it.range }, inside: inside(it), outside: part }] : [],
    )
    return {
      inside: ranged.reduce((sum, it) => sum + it.inside, 0),
      outside: ranged.filter((it) => it.part.rows > it.inside).map((it) => it.outside),
      parts: ranged.map((it): RangedPart => it.part),
    }
  }

  return {
    /** For each of `asked`, the parts that have such rows; undefined if a part was removed meanwhile. */
    async findRanges(asked: Rows[]): Promise<RangedPart[][] | undefined> {
      const known = asked.map(
        ({ whole, parts }) => new Map(parts.map((part) => [part, cache.get(toKey(part, whole))?.range])),
      )
      const unread = asked.flatMap((rows, at) => {
        const parts = rows.parts.filter((part) => !cache.has(toKey(part, rows.whole)))
        return parts.length === 0 ? [] : [{ ...rows, parts, at }]
      })
      if (unread.length > 0) {
        const ranges = await readRanges(unread)
        if (!(await areThere(unread))) return undefined
        unread.forEach(({ at, parts, whole }, nth) => {
          for (const part of parts) {
            const range = ranges[nth]?.get(part)
            known[at]?.set(part, range)
            // It may have been counted in rollups meanwhile.
            if (!cache.has(toKey(part, whole))) cache.set(toKey(part, whole), { range, inRollups: new Map() })
          }
        })
      }
      return known.map((its) => [...its].flatMap(([part, range]) => (range ? [{ ...part, ...range }] : [])))
    },

    /**
     * Counts rows inside rollups, and finds the parts that have rows outside; undefined if a part was removed meanwhile.
     * Reads a part once for all `known` rollups, also those not asked for, so concurrent reads wait for each other.
     */
    countInRollups: (rollups: Rollup[], known: Rollup[], rows: Rows) =>
      inTurn(`${rows.parts[0]?.table} ${rows.whole}`, () => count(rollups, known, rows)),
  }
}

/** The rows with claims between two adjacent bounds of rollups. */
type Bucket = Range & { from: bigint }

/** The rows of a part in a rollup, as far as they are known. */
function countInRollup({ range, inRollups }: PartRows, { id, low, high }: Rollup): number | undefined {
  if (!range || range.high < low || range.low > high) return 0
  return low <= range.low && range.high <= high ? range.rows : inRollups.get(id)
}

const least = (all: bigint[]) => all.reduce(minBigInt, all[0] ?? 0n)
const most = (all: bigint[]) => all.reduce(maxBigInt, 0n)
const sumRows = (buckets: Bucket[]) => buckets.reduce((sum, it) => sum + it.rows, 0)

function toRange(buckets: Bucket[]): Range | undefined {
  if (buckets.length === 0) return undefined
  return {
    low: least(buckets.map((it) => it.low)),
    high: most(buckets.map((it) => it.high)),
    rows: sumRows(buckets),
  }
}

const sumByRollup = (rollups: Rollup[], buckets: Bucket[]) =>
  new Map(rollups.map(({ id, low, high }) => [id, sumRows(buckets.filter((it) => it.from >= low && it.from <= high))]))

/** Parts to be read together: of one table, and no large ones. */
function inReads(parts: Part[]): Part[][] {
  const small = byTable(parts.filter((it) => it.size < aloneRowsMin))
  return [...small.map(([, its]) => its), ...parts.filter((it) => it.size >= aloneRowsMin).map((it) => [it])]
}

/** Serializes the work of each key. */
function createTurns() {
  const turns = new Map<string, Promise<unknown>>()
  return async <T>(key: string, run: () => Promise<T>): Promise<T> => {
    const turn = (turns.get(key) ?? Promise.resolve()).then(run, run)
    turns.set(key, turn)
    try {
      return await turn
    } finally {
      if (turns.get(key) === turn) turns.delete(key)
    }
  }
}
