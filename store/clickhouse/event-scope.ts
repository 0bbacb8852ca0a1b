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
import { readOnce, type Source } from './read-once.ts'

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
  return { table: eventsTable, whole: toWhole(scope), where: toCondition(scope) + voided }
}

export function toValues(scope: EventScope, { part, name }: FeatureName, voided: string): Source {
  const feature = ` AND part = ${valueParts[part]} AND name = ${quote(name)}`
  return { table: eventValuesTable, whole: toWhole(scope) + feature, where: toCondition(scope) + feature + voided }
}

const toWhole = ({ modelId, kind }: EventScope) => `model_id = ${modelId} AND kind = ${eventKinds[kind]}`

function toCondition({ version, from, to, ...model }: EventScope): string {
  return [
    toWhole(model),
    ...(version === undefined ? [] : [`version = ${quote(version)}`]),
    ...(from === undefined ? [] : [`timestamp >= ${BigInt(from)}`]),
    ...(to === undefined ? [] : [`timestamp < ${BigInt(to)}`]),
  ].join(' AND ')
}

/** Windows of one length, the last one possibly shorter; and how many events they have together, where that is known. */
export type Windows = { from: number; to: number; intervalMs: number; events?: number | undefined }

export const countWindows = ({ from, to, intervalMs }: Windows) => Math.max(1, Math.ceil((to - from) / intervalMs))

/** The number of the window of a row, from 0. */
export function windowOf(windows: Windows): string {
  if (countWindows(windows) === 1) return 'toInt32(0)'
  return `toInt32(intDiv(timestamp - ${BigInt(windows.from)}, ${BigInt(windows.intervalMs)}))`
}

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
  if (windows.events !== undefined && countWindows(windows) === 1) return [windows.events]
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
