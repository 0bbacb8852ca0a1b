import type { ClickHouse } from './connection.ts'
import {
  type EventKind,
  eventKinds,
  eventsTable,
  eventValuesTable,
  type ValuePart,
  valueParts,
  voidedEventsTable,
} from './monitoring-tables.ts'
import type { Table } from './tables.ts'

/** Which events a figure is about: those of a kind of a model, of one version or all, from `from` up to before `to`. */
export type EventScope = {
  modelId: bigint
  kind: EventKind
  version?: string | undefined
  /** ms since the Unix epoch. */
  from?: number | undefined
  to?: number | undefined
}

/** A column of what models report: the name alone is not enough, for a label may be called as a prediction is. */
export type FeatureName = { part: ValuePart; name: string }

/** Rows of one table that a figure is made of. */
export type Source = { table: Table; where: string }

/** Text as it stands in a statement: the statement travels as a body, so that thousands of names fit. */
export const quote = (text: string) => `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`

/** Rows of kinds of event that were voided are left out of every figure; most models never have one. */
export async function findVoided(clickhouse: ClickHouse, { modelId, kind }: EventScope): Promise<string> {
  const voided = `FROM ${clickhouse.database}.${voidedEventsTable.name}
    WHERE model_id = ${modelId} AND kind = ${eventKinds[kind]}`
  const rows = await clickhouse.rows(`SELECT 1 ${voided} LIMIT 1`)
  return rows.length === 0 ? '' : ` AND (claim, place) NOT IN (SELECT claim, place ${voided})`
}

export function toEvents(scope: EventScope, voided: string): Source {
  return { table: eventsTable, where: toCondition(scope) + voided }
}

export function toValues(scope: EventScope, { part, name }: FeatureName, voided: string): Source {
  const feature = ` AND part = ${valueParts[part]} AND name = ${quote(name)}`
  return { table: eventValuesTable, where: toCondition(scope) + feature + voided }
}

function toCondition({ modelId, kind, version, from, to }: EventScope): string {
  return [
    `model_id = ${modelId} AND kind = ${eventKinds[kind]}`,
    ...(version === undefined ? [] : [`version = ${quote(version)}`]),
    ...(from === undefined ? [] : [`timestamp >= ${BigInt(from)}`]),
    ...(to === undefined ? [] : [`timestamp < ${BigInt(to)}`]),
  ].join(' AND ')
}

/** Windows of one length, the last one possibly shorter. */
export type Windows = { from: number; to: number; intervalMs: number }

export const countWindows = ({ from, to, intervalMs }: Windows) => Math.max(1, Math.ceil((to - from) / intervalMs))

/** The number of the window of a row, from 0. */
export const windowOf = ({ from, intervalMs }: Windows) =>
  `toInt32(intDiv(timestamp - ${BigInt(from)}, ${BigInt(intervalMs)}))`

export type EventCount = { events: number; firstAt: number; lastAt: number; lastReceivedAt: number }

/** How many events there are, and when. */
export async function countEvents(clickhouse: ClickHouse, scope: EventScope): Promise<EventCount> {
  const source = toEvents(scope, await findVoided(clickhouse, scope))
  const [row] = await readOnce<Record<'events' | 'first' | 'last' | 'received', string>>(
    clickhouse,
    [source],
    ([rows]) =>
      `SELECT count() AS events, min(timestamp) AS first, max(timestamp) AS last, max(received) AS received FROM ${rows}`,
  )
  return {
    events: Number(row?.events),
    firstAt: Number(row?.first),
    lastAt: Number(row?.last),
    lastReceivedAt: Number(row?.received),
  }
}

/** How many events each window has. */
export async function countEventsOfWindows(
  clickhouse: ClickHouse,
  scope: EventScope,
  windows: Windows,
): Promise<number[]> {
  const source = toEvents({ ...scope, from: windows.from, to: windows.to }, await findVoided(clickhouse, scope))
  const rows = await readOnce<{ w: number; events: string }>(
    clickhouse,
    [source],
    ([events]) => `SELECT ${windowOf(windows)} AS w, count() AS events FROM ${events} GROUP BY w`,
  )
  const counts = Array<number>(countWindows(windows)).fill(0)
  for (const { w, events } of rows) counts[w] = Number(events)
  return counts
}

type PartRange = { source: number; part_name: string; low: string; high: string; rows: string }

/** So many rows are made one of each by hashing; with more of them FINAL costs less. */
const hashedRowsMax = 2_000_000

/**
 * Reads rows so that those which were delivered twice count once. `FINAL` does so by merging all that is read, which costs
 * twenty times as much as reading it. But a part has no row twice (inserts and merges see to that), and the numbers of
 * events grow with time, so that most parts have none in common: what parts do share is made one of each by hashing, and
 * all else is read as it is. When parts came or were merged meanwhile, what was found out about them may not hold, and
 * `FINAL` is used after all.
 *
 * @param toQuery makes the query out of one table expression for each source
 */
export async function readOnce<Row>(
  clickhouse: ClickHouse,
  sources: Source[],
  toQuery: (tables: string[]) => string,
): Promise<Row[]> {
  const before = await listParts(clickhouse, sources)
  const shared = sources.map((_, at) => findShared(before.filter((it) => it.source === at)))
  if (shared.every((it) => it !== undefined)) {
    const tables = sources.map((source, at) => toTable(clickhouse, source, shared[at] as Shared))
    const rows = await clickhouse.rows<Row>(toQuery(tables))
    const after = await listPartNames(clickhouse, sources)
    if (toNames(before) === toNames(after)) return rows
  }
  return await clickhouse.rows<Row>(
    toQuery(
      sources.map(({ table, where }) => `(SELECT * FROM ${clickhouse.database}.${table.name} FINAL WHERE ${where})`),
    ),
  )
}

async function listParts(clickhouse: ClickHouse, sources: Source[]): Promise<PartRange[]> {
  return await clickhouse.rows<PartRange>(
    sources
      .map(
        ({ table, where }, at) => `SELECT ${at} AS source, _part AS part_name, toString(min(claim)) AS low,
          toString(max(claim)) AS high, toString(count()) AS rows
        FROM ${clickhouse.database}.${table.name} WHERE ${where} GROUP BY _part`,
      )
      .join(' UNION ALL '),
  )
}

async function listPartNames(clickhouse: ClickHouse, sources: Source[]) {
  return await clickhouse.rows<Pick<PartRange, 'source' | 'part_name'>>(
    sources
      .map(
        ({ table, where }, at) => `SELECT ${at} AS source, _part AS part_name
        FROM ${clickhouse.database}.${table.name} WHERE ${where} GROUP BY _part`,
      )
      .join(' UNION ALL '),
  )
}

const toNames = (parts: Pick<PartRange, 'source' | 'part_name'>[]) =>
  parts
    .map((it) => `${it.source} ${it.part_name}`)
    .toSorted()
    .join('\n')

/** Ranges of claims that more than one part may have. */
type Shared = [low: bigint, high: bigint][]

/** @returns undefined when they hold too many rows */
function findShared(parts: PartRange[]): Shared | undefined {
  const sorted = parts
    .map(({ low, high, rows }) => ({ low: BigInt(low), high: BigInt(high), rows: Number(rows) }))
    .toSorted((a, b) => (a.low < b.low ? -1 : 1))
  const shared: Shared = []
  let rowsAtMost = 0
  let reach: bigint | undefined
  for (const { low, high, rows } of sorted) {
    if (reach !== undefined && low <= reach) {
      const upTo = high < reach ? high : reach
      const last = shared.at(-1)
      if (last && low <= last[1]) last[1] = upTo > last[1] ? upTo : last[1]
      else shared.push([low, upTo])
      rowsAtMost += rows
    }
    if (reach === undefined || high > reach) reach = high
  }
  return rowsAtMost > hashedRowsMax || shared.length > sharedRangesMax ? undefined : shared
}

const sharedRangesMax = 100

function toTable({ database }: ClickHouse, { table, where }: Source, shared: Shared): string {
  const name = `${database}.${table.name}`
  if (shared.length === 0) return `(SELECT * FROM ${name} WHERE ${where})`
  const isShared = shared.map(([low, high]) => `claim BETWEEN ${low} AND ${high}`).join(' OR ')
  return `(SELECT * FROM ${name} WHERE ${where} AND NOT (${isShared})
    UNION ALL SELECT * FROM ${name} WHERE ${where} AND (${isShared}) LIMIT 1 BY claim, place)`
}
