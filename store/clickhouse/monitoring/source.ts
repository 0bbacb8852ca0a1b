import { type ClaimRange, isAmong, type RangedPart } from '../parts.ts'
import type { Table } from '../table.ts'
import { and, ofFeatures, ofModel, quote } from './expressions.ts'
import type { Catalog } from './rollups/catalog.ts'
import type { Rollup } from './rollups/rollup.ts'
import { chooseRollups, isOutside } from './rollups/rollups.ts'
import { rollupValuesTable, rollupVersionValuesTable } from './rollups/tables.ts'
import type { EventScope, FeatureNames, Windows } from './scope.ts'
import {
  type Conditions,
  inScope,
  type Stored,
  selectFolded,
  selectStored,
  storedEvents,
  storedValues,
} from './stored.ts'
import { tombstonesTable, valueColumnNames } from './tables.ts'

/**
 * The rows that a question reads: its events or values, and the rollups that may replace them. The reader plans how to read
 * a source (`Plan`); only `selectRows` here makes SQL from both.
 */
export type Source = {
  stored: Stored
  scope: EventScope
  /** Of values only. */
  features?: FeatureNames
  /** Only these claims, to make a rollup of them. */
  claims?: ClaimRange
  /** A further condition on rows; rollups know nothing of it, so there are none then. */
  condition?: string
  columns: string
  /** Values as arrays instead, with the columns of `selectFoldedChunks`: of all times, and of tombstoned events too. */
  isFolded?: boolean
  catalog: Catalog
  /** Rollups from the catalog that may replace rows. They do not overlap. */
  rollups: Rollup[]
}

/** How a source is read. */
export type Plan = {
  /** Current rollups: they cover all rows in their ranges of claims. */
  rollups: Rollup[]
  tables: TablePlan[]
}

/** How a table of a source is read. */
export type TablePlan = {
  table: Table
  /** Its parts with rows of the source outside of the rollups. */
  parts: RangedPart[]
  /** The ranges of claims that several of these parts overlap in, where a row may be repeated. */
  shared: ClaimRange[]
  /** The approximate number of rows in these ranges. */
  sharedRows: number
}

/** Events: raw rows with all columns. */
export const eventRows = (scope: EventScope, catalog: Catalog): Source => ({
  stored: storedEvents,
  scope,
  columns: '*',
  catalog,
  rollups: [],
})

/** Values: a row each, with the columns of `event_values`. */
export const valueRows = (scope: EventScope, features: FeatureNames, catalog: Catalog): Source => ({
  stored: storedValues,
  scope,
  features,
  columns: valueColumnNames,
  catalog,
  rollups: [],
})

/** Events to be counted: a row is `weight` events from `timestamp` to `latest`, all in one window. */
export const countedEvents = (scope: EventScope, catalog: Catalog, windows?: Windows): Source => ({
  ...eventRows(scope, catalog),
  columns: 'version, timestamp, timestamp AS latest, received, toUInt64(1) AS weight',
  rollups: chooseFitting(scope, catalog, { windows }),
})

type Counted = {
  windows?: Windows | undefined
  /** True if a rollup holds the features in the form that the question needs. */
  isUsable?: (rollup: Rollup) => boolean
}

/** Values to be counted: a row is `weight` values from `least` to `most`. Those of rollups may be rounded or hashed. */
export const countedValues = (
  scope: EventScope,
  features: FeatureNames,
  catalog: Catalog,
  options: Counted = {},
): Source => ({
  ...valueRows(scope, features, catalog),
  columns:
    'name, timestamp, type, number, number AS least, number AS most, text, toUInt64(1) AS weight, toUInt8(0) AS is_rounded, toUInt8(0) AS is_hashed',
  rollups: chooseFitting(scope, catalog, options),
})

const isBeyond = ({ from = -Infinity, to = Infinity }: EventScope, it: Rollup) => it.last < from || it.first >= to

/** The usable rollups whose events are all in one window, or all in none. */
function chooseFitting(scope: EventScope, catalog: Catalog, { windows, isUsable = () => true }: Counted): Rollup[] {
  const { from = -Infinity, to = Infinity } = scope
  const numberOf = (time: number) => (windows ? Math.floor((time - windows.from) / windows.intervalMs) : 0)
  const isWithin = (it: Rollup) => it.first >= from && it.last < to && numberOf(it.first) === numberOf(it.last)
  return chooseRollups(catalog.rollups, (it) => isUsable(it) && (isBeyond(scope, it) || isWithin(it)))
}

/**
 * The condition on all rows that a source may read, in any version and at any time. Facts about parts are cached by this
 * condition, so it must be the same for many questions. Values of claims are looked up for all features together, which have
 * been counted in advance (`claim_counts`).
 */
export function toWhole({ scope, features, claims }: Source, rollups: Rollup[] = []): string {
  return and(
    ofModel(scope),
    features && !claims && ofFeatures(features),
    claims && ofClaims(claims),
    isOutside(rollups),
  ) as string
}

const ofClaims = ([low, high]: ClaimRange) => `claim BETWEEN ${low} AND ${high}`

function toConditions(
  database: string,
  { scope, features, claims, condition, catalog }: Source,
  rollups: Rollup[] = [],
): Conditions {
  const isAlive =
    catalog.hasTombstones &&
    `(claim, place) NOT IN (SELECT claim, place FROM ${database}.${tombstonesTable.name} WHERE ${ofModel(scope)})`
  const common = and(features && ofFeatures(features), claims && ofClaims(claims), isOutside(rollups))
  return inScope(scope, common, and(isAlive, condition))
}

/** A table expression of the rows of a source, deduplicated. */
export function selectRows(database: string, source: Source, { rollups, tables }: Plan): string {
  const conditions = toConditions(database, source, rollups)
  const sums = rollups.length === 0 ? undefined : selectRollups(database, source, rollups)
  const selects = tables
    .filter((it) => it.parts.length > 0)
    .flatMap((it) => selectTable(database, source, conditions, it))
  if (sums !== undefined) selects.push(sums)
  if (selects.length === 0) selects.push(selectOfTable(database, source, firstTable(source), { common: 'false' }))
  return selects.length === 1 ? `(${selects[0]})` : `(SELECT * FROM (${selects.join(' UNION ALL ')}))`
}

const firstTable = ({ stored }: Source) => stored.tables[0] as Table

/** The rows of a table: those in shared ranges are compared with each other. */
function selectTable(database: string, source: Source, conditions: Conditions, plan: TablePlan): string[] {
  const { table, parts, shared } = plan
  const select = (condition: string, once?: 'limit') =>
    selectOfTable(database, source, table, { ...conditions, common: `${conditions.common} AND ${condition}` }, once)
  if (shared.length === 0) return [select(isAmong(parts))]
  const isShared = `(${shared.map(ofClaims).join(' OR ')})`
  return [
    select(`${isAmong(parts)} AND NOT ${isShared}`),
    `SELECT * FROM (${select(`${isAmong(parts)} AND ${isShared}`, 'limit')})`,
  ]
}

function selectOfTable(
  database: string,
  { columns, isFolded }: Source,
  table: Table,
  conditions: Conditions,
  once?: 'final' | 'limit',
): string {
  return isFolded
    ? selectFolded(database, table, conditions.common, once)
    : selectStored(database, table, columns, conditions, once)
}

/** The same rows by `FINAL`, which costs many times as much and needs no plan. */
export function selectFinalRows(database: string, source: Source): string {
  const conditions = toConditions(database, source)
  const selects = source.stored.tables.map((it) => selectOfTable(database, source, it, conditions, 'final'))
  return selects.length === 1 ? `(${selects[0]})` : `(SELECT * FROM (${selects.join(' UNION ALL ')}))`
}

/** The rows of rollups, with the columns of the source; undefined if they have none in the scope. */
function selectRollups(database: string, source: Source, rollups: Rollup[]): string | undefined {
  const { scope, features } = source
  const chosen = rollups.filter((it) => !isBeyond(scope, it))
  return features ? selectRolledValues(database, scope, features, chosen) : selectRolledEvents(scope, chosen)
}

function selectRolledEvents({ version }: EventScope, rollups: Rollup[]): string | undefined {
  const rows = rollups
    .flatMap((it) => it.versions)
    .filter((it) => version === undefined || it.version === version)
    .map((it) => `(${quote(it.version)}, ${it.first}, ${it.last}, ${it.received}, ${it.events})`)
  if (rows.length === 0) return undefined
  return `SELECT * FROM values('version String, timestamp Int64, latest Int64, received Int64, weight UInt64', ${rows.join(', ')})`
}

function selectRolledValues(
  database: string,
  scope: EventScope,
  features: FeatureNames,
  rollups: Rollup[],
): string | undefined {
  const { version } = scope
  const select = (table: string, some: Rollup[], condition = '') => {
    if (some.length === 0) return []
    const ids = some.map((it) => it.id)
    const sql = `SELECT name, transform(rollup, [${ids}]::Array(UInt64), [${some.map((it) => it.first)}]::Array(Int64), toInt64(0)) AS timestamp,
        type, number, least, most, text, weight, is_rounded, is_hashed
      FROM ${database}.${table} WHERE ${ofModel(scope)} AND ${ofFeatures(features)} AND rollup IN (${ids})${condition}`
    return [sql]
  }
  const has = rollups.filter((it) => version === undefined || it.versions.some((its) => its.version === version))
  const hasOthers = (it: Rollup) => version !== undefined && it.versions.length > 1
  const ofAll = has.filter((it) => !hasOthers(it))
  const ofVersion = has.filter(hasOthers)
  const selects = [
    ...select(rollupValuesTable, ofAll),
    ...select(rollupVersionValuesTable, ofVersion, ` AND version = ${quote(version ?? '')}`),
  ]
  return selects.length === 0 ? undefined : selects.join(' UNION ALL ')
}
