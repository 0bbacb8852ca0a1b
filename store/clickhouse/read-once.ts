import { LRUCache } from 'lru-cache'
import type { ClickHouse } from './connection.ts'
import type { Table } from './tables.ts'

/**
 * Reads events so that those which were delivered twice count once. `FINAL` does so by merging all that is read, which costs
 * twenty times as much as reading it. But a part has no row twice (inserts and merges see to that), and the numbers of
 * events grow with time, so that most parts have few in common: what parts share is made one of each by hashing, and all
 * else is read as it is.
 *
 * The parts are named in the query. One that is inserted meanwhile is not read; one that is merged meanwhile might be
 * missing, and then all is done again. Should that happen again and again, or parts share too much, `FINAL` is used after
 * all. Parts never change, so what was found out about one is remembered.
 */

/** Rows of one table that a figure is made of. */
export type Source = {
  table: Table
  /** Which rows of the table may be among them, for whatever version and time: what is known of parts is known by it. */
  whole: string
  where: string
}

/** The numbers of events that a part has. */
type Range = { low: bigint; high: bigint; rows: number }
type Part = { name: string; id: string }
type RangedPart = Part & Range

/** So many rows are made one of each by hashing; with more of them FINAL costs less. */
const hashedRowsMax = 2_000_000
const sharedRangesMax = 100
const attemptsMax = 3
const rangesMax = 100_000

const rangesByStore = new WeakMap<ClickHouse, LRUCache<string, { range: Range | undefined }>>()

/** @param toQuery makes the query out of one table expression for each source */
export async function readOnce<Row>(
  clickhouse: ClickHouse,
  sources: Source[],
  toQuery: (tables: string[]) => string,
): Promise<Row[]> {
  const tables = [...new Set(sources.map((it) => it.table.name))]
  for (let attempt = 0; attempt < attemptsMax; attempt++) {
    const active = await listParts(clickhouse, tables)
    const parts = await findRanges(clickhouse, sources, active)
    if (!parts) continue
    const shared = parts.map(findShared)
    if (shared.includes(undefined)) break
    const query = toQuery(
      sources.map((source, at) => toTable(clickhouse, source, parts[at] as RangedPart[], shared[at] as Shared)),
    )
    const rows = await clickhouse.rows<Row>(query)
    if (areAllIn(parts.flat(), await listParts(clickhouse, tables))) return rows
  }
  return await clickhouse.rows<Row>(
    toQuery(
      sources.map(({ table, where }) => `(SELECT * FROM ${clickhouse.database}.${table.name} FINAL WHERE ${where})`),
    ),
  )
}

/** The parts of tables as they are now. A name alone may come again in a table that is made anew. */
async function listParts(clickhouse: ClickHouse, tables: string[]): Promise<Map<string, Part[]>> {
  const rows = await clickhouse.rows<Part & { table: string }>(
    `SELECT table, name, concat(table, ' ', name, ' ', toString(rows), ' ', toString(bytes_on_disk), ' ',
       toString(modification_time)) AS id
     FROM system.parts WHERE active AND database = {database:String} AND table IN ({tables:Array(String)})`,
    { database: clickhouse.database, tables },
  )
  return Map.groupBy(rows, (it) => it.table)
}

function areAllIn(parts: Part[], active: Map<string, Part[]>): boolean {
  const ids = new Set([...active.values()].flat().map((it) => it.id))
  return parts.every((it) => ids.has(it.id))
}

/** For each source the parts that have rows of it; undefined when parts went away meanwhile. */
async function findRanges(
  clickhouse: ClickHouse,
  sources: Source[],
  active: Map<string, Part[]>,
): Promise<RangedPart[][] | undefined> {
  let ranges = rangesByStore.get(clickhouse)
  if (!ranges) rangesByStore.set(clickhouse, (ranges = new LRUCache({ max: rangesMax })))
  const known = ranges
  const toKey = ({ whole }: Source, { id }: Part) => `${id} ${whole}`
  const partsOf = (source: Source) => active.get(source.table.name) ?? []
  const unknown = sources.map((source) => partsOf(source).filter((it) => !known.has(toKey(source, it))))
  const asked = sources.flatMap((source, at) => {
    const parts = unknown[at] as Part[]
    return parts.length === 0 ? [] : [{ source, parts }]
  })
  if (asked.length > 0) {
    const rows = await clickhouse.rows<{ at: number; part_name: string; low: string; high: string; n: string }>(
      asked
        .map(
          (
            { source: { table, whole }, parts },
            at,
          ) => `SELECT ${at} AS at, _part AS part_name, toString(min(claim)) AS low,
            toString(max(claim)) AS high, count() AS n
          FROM ${clickhouse.database}.${table.name} WHERE ${whole} AND ${isAmong(parts)} GROUP BY _part`,
        )
        .join(' UNION ALL '),
    )
    // A part that has gone has no rows either.
    const isStill = areAllIn(
      asked.flatMap((it) => it.parts),
      await listParts(clickhouse, [...new Set(asked.map((it) => it.source.table.name))]),
    )
    if (!isStill) return undefined
    const found = new Map(rows.map((it) => [`${it.at} ${it.part_name}`, it]))
    asked.forEach(({ source, parts }, at) => {
      for (const part of parts) {
        const row = found.get(`${at} ${part.name}`)
        const range = row && { low: BigInt(row.low), high: BigInt(row.high), rows: Number(row.n) }
        known.set(toKey(source, part), { range })
      }
    })
  }
  return sources.map((source) =>
    partsOf(source).flatMap((part) => {
      const range = known.get(toKey(source, part))?.range
      return range ? { ...part, ...range } : []
    }),
  )
}

/** Ranges of numbers that more than one part may have. */
type Shared = [low: bigint, high: bigint][]

/** @returns undefined when they hold too many rows */
function findShared(parts: RangedPart[]): Shared | undefined {
  const shared: Shared = []
  let reach: bigint | undefined
  for (const { low, high } of parts.toSorted((a, b) => (a.low < b.low ? -1 : 1))) {
    if (reach !== undefined && low <= reach) {
      const upTo = high < reach ? high : reach
      const last = shared.at(-1)
      if (last && low <= last[1]) last[1] = upTo > last[1] ? upTo : last[1]
      else shared.push([low, upTo])
    }
    if (reach === undefined || high > reach) reach = high
  }
  const rows = parts.reduce((sum, part) => sum + shared.reduce((its, range) => its + reckonRows(part, range), 0), 0)
  return rows > hashedRowsMax || shared.length > sharedRangesMax ? undefined : shared
}

/** The rows of a part within a range, as if they were spread evenly. */
function reckonRows({ low, high, rows }: Range, [from, to]: Shared[number]): number {
  const within = Number((to < high ? to : high) - (from > low ? from : low)) + 1
  return within <= 0 ? 0 : (rows * within) / (Number(high - low) + 1)
}

function toTable({ database }: ClickHouse, { table, where }: Source, parts: RangedPart[], shared: Shared): string {
  const rows = `SELECT * FROM ${database}.${table.name} WHERE ${where} AND ${isAmong(parts)}`
  if (shared.length === 0) return `(${rows})`
  const isShared = shared.map(([low, high]) => `claim BETWEEN ${low} AND ${high}`).join(' OR ')
  return `(${rows} AND NOT (${isShared}) UNION ALL ${rows} AND (${isShared}) LIMIT 1 BY claim, place)`
}

function isAmong(parts: Part[]): string {
  return parts.length === 0 ? 'false' : `_part IN (${parts.map((it) => `'${it.name}'`).join(', ')})`
}
