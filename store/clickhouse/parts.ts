import { createBatchLoader } from '../../runtime/batch-loader.ts'
import { maxBigInt, minBigInt } from '../../runtime/bigint.ts'
import { fromLocal, systemTable, toLocal } from './cluster/layout.ts'
import type { ClickHouse } from './connection.ts'

/** A part of a table. Parts are immutable: inserts create new ones, merges replace several by one. */
export type Part = {
  table: string
  name: string
  id: string
  /** 0 on a single server. Another shard may have a part of the same name. */
  shard: number
  /** The number of its rows. */
  size: number
}

/** The active parts of tables. A recreated table may use the same part names again. */
export async function listParts(clickhouse: ClickHouse, tables: readonly string[]): Promise<Part[]> {
  const rows = await clickhouse.rows<Omit<Part, 'size'> & { size: string }>(
    `SELECT table, name, rows AS size, ${shardOf(clickhouse)} AS shard, concat(toString(shard), ' ', table, ' ', name, ' ', toString(rows), ' ',
       toString(bytes_on_disk), ' ', toString(modification_time)) AS id
     FROM ${systemTable(clickhouse, 'parts')}
     WHERE active AND database = {database:String} AND table IN ({tables:Array(String)})`,
    { database: clickhouse.database, tables: tables.map((it) => toLocal(clickhouse, it)) },
  )
  return rows.map((it) => ({ ...it, table: fromLocal(clickhouse, it.table), size: Number(it.size) }))
}

/** `listParts` for many callers at once: those that come during a query share the next one. */
export function createPartsList(clickhouse: ClickHouse) {
  const load = createBatchLoader(async (tables: string[]) =>
    Map.groupBy(await listParts(clickhouse, tables), (it) => it.table),
  )
  return async (tables: readonly string[]): Promise<Part[]> =>
    (await Promise.all(tables.map(load))).flatMap((it) => it ?? [])
}

/** The shard that a row is on, as an expression. */
export const shardOf = ({ cluster }: ClickHouse) => (cluster === undefined ? 'toUInt32(0)' : '_shard_num')

export function areAllIn(parts: Part[], active: Part[]): boolean {
  const ids = new Set(active.map((it) => it.id))
  return parts.every((it) => ids.has(it.id))
}

/** A condition on rows of one table: they are in one of its parts. */
export function isAmong(parts: Part[]): string {
  if (parts.length === 0) return 'false'
  const conditions = [...Map.groupBy(parts, (it) => it.shard)].map(([shard, its]) => {
    const isNamed = `_part IN (${its.map((it) => `'${it.name}'`).join(', ')})`
    return shard === 0 ? isNamed : `(_shard_num = ${shard} AND ${isNamed})`
  })
  return conditions.length === 1 ? (conditions[0] as string) : `(${conditions.join(' OR ')})`
}

/** The range of claims in a part. */
export type Range = { low: bigint; high: bigint; rows: number }
export type RangedPart = Part & Range
export type ClaimRange = [low: bigint, high: bigint]

/** The ranges of claims that several parts of a table overlap in, and the approximate number of rows in them. */
export function findShared(parts: Range[]): { ranges: ClaimRange[]; rows: number } {
  const ranges: ClaimRange[] = []
  let reach: bigint | undefined
  for (const { low, high } of parts.toSorted((a, b) => (a.low < b.low ? -1 : 1))) {
    if (reach !== undefined && low <= reach) {
      const upTo = minBigInt(high, reach)
      const last = ranges.at(-1)
      if (last && low <= last[1]) last[1] = maxBigInt(last[1], upTo)
      else ranges.push([low, upTo])
    }
    if (reach === undefined || high > reach) reach = high
  }
  const rows = parts.reduce((sum, part) => sum + ranges.reduce((its, range) => its + reckonRows(part, range), 0), 0)
  return { ranges, rows }
}

/** The number of rows of a part within a range, assuming an even distribution. */
function reckonRows({ low, high, rows }: Range, [from, to]: ClaimRange): number {
  const within = Number((to < high ? to : high) - (from > low ? from : low)) + 1
  return within <= 0 ? 0 : (rows * within) / (Number(high - low) + 1)
}
