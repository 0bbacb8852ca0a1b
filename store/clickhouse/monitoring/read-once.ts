import { hash } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import type { ClickHouse } from '../connection.ts'
import {
  areAllIn,
  type ClaimRange,
  findShared,
  isAmong,
  listParts,
  type Part,
  type Range,
  type RangedPart,
  shardOf,
} from '../parts.ts'
import type { Table } from '../table.ts'
import type { Rollup } from './rollups/rollup.ts'
import { isOutside, keepStanding, type Standing } from './rollups/rollups.ts'

/**
 * Reads events so that those which were delivered twice count once. `FINAL` does so by merging all that is read, which costs
 * twenty times as much as reading it. But a part has no row twice (inserts and merges see to that: `eachOnceInPart`), and the
 * numbers of events grow with time, so that most parts have few in common: what parts share is made one of each by hashing,
 * and all else is read as it is.
 *
 * The parts are named in the query. One that is inserted meanwhile is not read; one that is merged meanwhile might be
 * missing, and then all is done again. Should that happen again and again, or parts share too much, `FINAL` is used after
 * all. Parts never change, so what was found out about one is remembered.
 *
 * Rollups take the place of the rows they were made of, as long as they hold all that is there (see `rollups.ts`).
 */

/** Rows of one table that a figure is made of. */
export type Source = {
  table: Table
  /** Which rows of the table may be among them, for whatever version and time: what is known of parts is known by it. */
  whole: string
  where: string
  /** What no two rows have in common, unless they are one that was delivered twice. */
  identity: string
  /** The columns that the figure is made of. */
  columns: string
  /** What is summed up already, and takes the place of rows. */
  rolled?: Rolled | undefined
}

/** Rollups that may take the place of rows of a source. */
export type Rolled = {
  modelId: bigint
  kind: number
  /** All that may be used at some time, whose rows are counted at once. */
  known: Rollup[]
  /** Of what is in them and what is elsewhere nothing is twice. */
  rollups: Rollup[]
  /** Rows with the columns of the source; undefined when none of them are asked for. */
  toRows(rollups: Rollup[]): string | undefined
}

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
  let rows: Row[] = []
  await runOnce(clickhouse, sources, async (tables) => {
    rows = await clickhouse.rows<Row>(toQuery(tables))
  })
  return rows
}

const answersMax = 1_000
const answersByStore = new WeakMap<ClickHouse, LRUCache<string, unknown[]>>()

/**
 * As `readOnce`, of what hardly ever changes, as a reference: the answer is kept in mind for as long as the same parts have
 * the rows. The query must name nothing but the tables, and nothing must be voided.
 */
export async function readLasting<Row>(
  clickhouse: ClickHouse,
  sources: Source[],
  toQuery: (tables: string[]) => string,
): Promise<Row[]> {
  let known = answersByStore.get(clickhouse)
  if (!known) {
    known = new LRUCache({ max: answersMax })
    answersByStore.set(clickhouse, known)
  }
  let rows: Row[] = []
  await runOnce(clickhouse, sources, async (tables, parts) => {
    const query = toQuery(tables)
    const key = parts && hash('sha256', JSON.stringify([query, parts.map((it) => it.id)]))
    rows = ((key && known.get(key)) as Row[] | undefined) ?? (await clickhouse.rows<Row>(query))
    if (key) known.set(key, rows)
  })
  return rows
}

/** Runs something over rows of events that were delivered once or more; again when parts went away meanwhile. */
export async function runOnce(
  clickhouse: ClickHouse,
  sources: Source[],
  /** Without parts all of them are read. */
  run: (tables: string[], parts: Part[] | undefined) => Promise<void>,
): Promise<void> {
  const tables = [...new Set(sources.map((it) => it.table.name))]
  for (let attempt = 0; attempt < attemptsMax; attempt++) {
    const active = await listParts(clickhouse, tables)
    const standing = await findStanding(clickhouse, sources, active)
    if (!standing) continue
    const unrolled = sources.map((source, at) => withoutRolled(source, standing[at]))
    const partsOf = sources.map((source, at) => standing[at]?.outside ?? active.get(source.table.name) ?? [])
    const parts = await findRanges(clickhouse, unrolled, partsOf)
    if (!parts) continue
    const shared = parts.map(findShared)
    if (shared.some((it) => it.rows > hashedRowsMax || it.ranges.length > sharedRangesMax)) break
    await run(
      unrolled.map((source, at) =>
        withRolled(source, standing[at], parts[at]?.length === 0, () =>
          toTable(clickhouse, source, parts[at] as RangedPart[], shared[at]?.ranges ?? []),
        ),
      ),
      parts.flat(),
    )
    if (areAllIn(parts.flat(), await listParts(clickhouse, tables))) return
  }
  await run(toFinal(clickhouse, sources), undefined)
}

/** Table expressions of rows that count once however often they were delivered, and whatever is merged meanwhile. */
export const toFinal = ({ database }: ClickHouse, sources: Source[]): string[] =>
  sources.map(({ table, where, columns }) => `(SELECT ${columns} FROM ${database}.${table.name} FINAL WHERE ${where})`)

/** For each source the rollups that hold what there is; undefined when parts went away meanwhile. */
async function findStanding(
  clickhouse: ClickHouse,
  sources: Source[],
  active: Map<string, Part[]>,
): Promise<(Standing | undefined)[] | undefined> {
  // Sources differ in their features, mostly, and rollups are of all of them.
  const found = new Map<string, Promise<Standing | undefined>>()
  let areGone = false
  const standing = await Promise.all(
    sources.map(async ({ table, rolled }) => {
      if (!rolled || rolled.rollups.length === 0) return undefined
      const { rollups, ...model } = rolled
      const key = [table.name, model.modelId, model.kind, ...rollups.map((it) => it.id)].join(' ')
      const known =
        found.get(key) ?? keepStanding(clickhouse, rollups, { ...model, table, parts: active.get(table.name) ?? [] })
      found.set(key, known)
      const answer = await known
      if (!answer) areGone = true
      return answer
    }),
  )
  return areGone ? undefined : standing
}

function withoutRolled(source: Source, standing: Standing | undefined): Source {
  if (!standing || standing.rollups.length === 0) return source
  const outside = ` AND ${isOutside(standing.rollups)}`
  return { ...source, whole: source.whole + outside, where: source.where + outside }
}

function withRolled(
  { rolled }: Source,
  standing: Standing | undefined,
  isRolledOnly: boolean,
  toTable: () => string,
): string {
  const rows = standing && standing.rollups.length > 0 ? rolled?.toRows(standing.rollups) : undefined
  if (rows === undefined) return toTable()
  return isRolledOnly ? `(${rows})` : `(SELECT * FROM ${toTable()} UNION ALL ${rows})`
}

/** For each source the parts that have rows of it; undefined when parts went away meanwhile. */
async function findRanges(
  clickhouse: ClickHouse,
  sources: Source[],
  partsOf: Part[][],
): Promise<RangedPart[][] | undefined> {
  let ranges = rangesByStore.get(clickhouse)
  if (!ranges) {
    ranges = new LRUCache({ max: rangesMax })
    rangesByStore.set(clickhouse, ranges)
  }
  const known = ranges
  const toKey = ({ whole }: Source, { id }: Part) => `${id} ${whole}`
  const unknown = sources.map((source, at) => (partsOf[at] ?? []).filter((it) => !known.has(toKey(source, it))))
  const asked = sources.flatMap((source, at) => {
    const parts = unknown[at] as Part[]
    return parts.length === 0 ? [] : [{ source, parts }]
  })
  if (asked.length > 0) {
    const rows = await clickhouse.rows<{
      at: number
      shard: number
      part_name: string
      low: string
      high: string
      n: string
    }>(
      asked
        .map(
          (
            { source: { table, whole }, parts },
            at,
          ) => `SELECT ${at} AS at, ${shardOf(clickhouse)} AS shard, _part AS part_name, toString(min(claim)) AS low,
            toString(max(claim)) AS high, count() AS n
          FROM ${clickhouse.database}.${table.name} WHERE ${whole} AND ${isAmong(parts)} GROUP BY shard, _part`,
        )
        .join(' UNION ALL '),
    )
    // A part that has gone has no rows either.
    const isStill = areAllIn(
      asked.flatMap((it) => it.parts),
      await listParts(clickhouse, [...new Set(asked.map((it) => it.source.table.name))]),
    )
    if (!isStill) return undefined
    const found = new Map(rows.map((it) => [`${it.at} ${it.shard} ${it.part_name}`, it]))
    asked.forEach(({ source, parts }, at) => {
      for (const part of parts) {
        const row = found.get(`${at} ${part.shard} ${part.name}`)
        const range = row && { low: BigInt(row.low), high: BigInt(row.high), rows: Number(row.n) }
        known.set(toKey(source, part), { range })
      }
    })
  }
  return sources.map((source, at) =>
    (partsOf[at] ?? []).flatMap((part) => {
      const range = known.get(toKey(source, part))?.range
      return range ? { ...part, ...range } : []
    }),
  )
}

function toTable({ database }: ClickHouse, source: Source, parts: RangedPart[], shared: ClaimRange[]): string {
  const { table, where, columns, identity } = source
  const from = `FROM ${database}.${table.name} WHERE ${where} AND ${isAmong(parts)}`
  if (shared.length === 0) return `(SELECT ${columns} ${from})`
  const isShared = shared.map(([low, high]) => `claim BETWEEN ${low} AND ${high}`).join(' OR ')
  return `(SELECT ${columns} ${from} AND NOT (${isShared}) UNION ALL
    SELECT ${columns} ${from} AND (${isShared}) LIMIT 1 BY ${identity})`
}
