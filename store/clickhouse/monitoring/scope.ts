import type { ClickHouse } from '../connection.ts'
import { type Rolled, readOnce, type Source } from './read-once.ts'
import type { Rollup } from './rollups/rollup.ts'
import { chooseRollups, listRollups } from './rollups/rollups.ts'
import { rollupValuesTable, rollupVersionValuesTable } from './rollups/tables.ts'
import {
  type EventKind,
  eventKinds,
  eventsTable,
  eventValuesTable,
  type ValuePart,
  valueParts,
  voidedEventsTable,
} from './tables.ts'

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

/** Some of them, which are read together. */
export type FeatureNames = { part: ValuePart; names: readonly string[] }

/** The place of a row's feature among some, as an expression. */
export const placeOf = (names: readonly string[]) =>
  names.length === 1
    ? 'toUInt16(0)'
    : `toUInt16(transform(toString(name), [${names.map(quote).join(', ')}], range(${names.length}), 0))`

/** Text as it stands in a statement: the statement travels as a body, so that thousands of names fit. */
export const quote = (text: string) => `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`

/** What is left out of a figure, and what is summed up already. */
export type Ground = {
  /** A condition: rows of events that were voided are left out of every figure. Most models never have one. */
  voided: string
  /** Rollups that know of everything that was voided. */
  rollups: Rollup[]
}

/** With more events than this voided, no rollup is used. */
const voidedMax = 10_000

export async function findGround(clickhouse: ClickHouse, { modelId, kind }: EventScope): Promise<Ground> {
  const voided = `FROM ${clickhouse.database}.${voidedEventsTable.name}
    WHERE model_id = ${modelId} AND kind = ${eventKinds[kind]}`
  const [claims, rollups] = await Promise.all([
    clickhouse.rows<{ claim: string }>(`SELECT DISTINCT claim, place ${voided} LIMIT ${voidedMax + 1}`),
    listRollups(clickhouse, { modelId, kind: eventKinds[kind] }),
  ])
  if (claims.length === 0) return { voided: '', rollups: rollups.filter((it) => it.voided === 0) }
  const numbers = claims.map((it) => BigInt(it.claim))
  return {
    voided: ` AND (claim, place) NOT IN (SELECT claim, place ${voided})`,
    rollups:
      claims.length > voidedMax
        ? []
        : rollups.filter((it) => it.voided === numbers.filter((claim) => claim >= it.low && claim <= it.high).length),
  }
}

const columnsOfEvents = 'version, timestamp, timestamp AS latest, received, toUInt64(1) AS weight'
const columnsOfValues =
  'name, timestamp, type, number, number AS least, number AS most, text, toUInt64(1) AS weight, toUInt8(0) AS is_rounded, toUInt8(0) AS is_hashed'

/** Events by their numbers: rows with all columns. */
export function toEvents(scope: EventScope, { voided }: Ground): Source {
  const where = toCondition(scope) + voided
  return { table: eventsTable, whole: toWhole(scope), where, identity: 'claim, place', columns: '*' }
}

/** Values by the numbers of their events: rows with all columns. */
export function toValues(scope: EventScope, features: FeatureNames, { voided }: Ground): Source {
  const isOf = isOfFeatures(features)
  const where = toCondition(scope) + isOf + voided
  return { table: eventValuesTable, whole: toWhole(scope) + isOf, where, identity: 'name, claim, place', columns: '*' }
}

/**
 * Events as they are counted: each row stands for `weight` of them, from `timestamp` to `latest`, which are in one window.
 */
function toCountedEvents(scope: EventScope, ground: Ground, windows?: Windows): Source {
  const toRows = (chosen: Rollup[]) => {
    const rows = chosen
      .flatMap((it) => it.versions)
      .filter((it) => scope.version === undefined || it.version === scope.version)
      .map((it) => `(${quote(it.version)}, ${it.first}, ${it.last}, ${it.received}, ${it.events})`)
    if (rows.length === 0) return undefined
    return `SELECT * FROM values('version String, timestamp Int64, latest Int64, received Int64, weight UInt64', ${rows.join(', ')})`
  }
  const rolled = toRolled(scope, ground.rollups, { windows, toRows })
  return { ...toEvents(scope, ground), columns: columnsOfEvents, rolled }
}

/**
 * Values as they are counted: each row stands for `weight` of them, from `least` to `most`. What is in rollups may have been
 * rounded or hashed.
 */
export function toCountedValues(
  clickhouse: ClickHouse,
  scope: EventScope,
  features: FeatureNames,
  ground: Ground,
  { windows, isWanted = () => true }: { windows?: Windows | undefined; isWanted?: (rollup: Rollup) => boolean } = {},
): Source {
  const { version } = scope
  const toRows = (chosen: Rollup[]) => {
    const has = chosen.filter((it) => version === undefined || it.versions.some((its) => its.version === version))
    const select = (table: string, some: Rollup[], condition: string) => {
      if (some.length === 0) return []
      const ids = some.map((it) => it.id)
      return `SELECT name, transform(rollup, [${ids}]::Array(UInt64), [${some.map((it) => it.first)}]::Array(Int64), toInt64(0)) AS timestamp,
          type, number, least, most, text, weight, is_rounded, is_hashed
        FROM ${clickhouse.database}.${table} WHERE ${toWhole(scope)}${isOfFeatures(features)} AND rollup IN (${ids})${condition}`
    }
    const isApart = (it: Rollup) => version !== undefined && it.versions.length > 1
    const selects = [
      select(
        rollupValuesTable,
        has.filter((it) => !isApart(it)),
        '',
      ),
      select(rollupVersionValuesTable, has.filter(isApart), ` AND version = ${quote(version ?? '')}`),
    ].flat()
    return selects.length === 0 ? undefined : selects.join(' UNION ALL ')
  }
  const rolled = toRolled(scope, ground.rollups, { windows, toRows, isWanted })
  return { ...toValues(scope, features, ground), columns: columnsOfValues, rolled }
}

type RolledRows = {
  windows: Windows | undefined
  toRows: Rolled['toRows']
  isWanted?: (rollup: Rollup) => boolean
}

/** Those rollups take the place of rows whose events are all in one window, or none of them in any. */
function toRolled(
  { modelId, kind, from = -Infinity, to = Infinity }: EventScope,
  known: Rollup[],
  { windows, toRows, isWanted = () => true }: RolledRows,
): Rolled {
  const isAway = (it: Rollup) => it.last < from || it.first >= to
  const numberOf = (time: number) => (windows ? Math.floor((time - windows.from) / windows.intervalMs) : 0)
  const isIn = (it: Rollup) => it.first >= from && it.last < to && numberOf(it.first) === numberOf(it.last)
  return {
    modelId,
    kind: eventKinds[kind],
    known,
    rollups: chooseRollups(known, (it) => isWanted(it) && (isAway(it) || isIn(it))),
    toRows: (chosen) => toRows(chosen.filter((it) => !isAway(it))),
  }
}

const isOfFeatures = ({ part, names }: FeatureNames) =>
  ` AND part = ${valueParts[part]} AND name IN (${names.map(quote).join(', ')})`

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
export async function countEvents(
  clickhouse: ClickHouse,
  scope: EventScope,
  known?: Ground | undefined,
): Promise<EventCount> {
  const source = toCountedEvents(scope, known ?? (await findGround(clickhouse, scope)))
  const [row] = await readOnce<Record<'events' | 'first' | 'last' | 'received', string>>(
    clickhouse,
    [source],
    ([rows]) =>
      `SELECT sum(weight) AS events, min(timestamp) AS first, max(latest) AS last, max(received) AS received FROM ${rows}`,
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
  const ofTime = { ...scope, from: windows.from, to: windows.to }
  const source = toCountedEvents(ofTime, await findGround(clickhouse, scope), windows)
  const rows = await readOnce<{ w: number; events: string }>(
    clickhouse,
    [source],
    ([events]) => `SELECT ${windowOf(windows)} AS w, sum(weight) AS events FROM ${events} GROUP BY w`,
  )
  const counts = Array<number>(countWindows(windows)).fill(0)
  for (const { w, events } of rows) counts[w] = Number(events)
  return counts
}
