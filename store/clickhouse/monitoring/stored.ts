import type { Table } from '../table.ts'
import { and, ofModel, ofTimes, ofVersion, touchesTimes } from './expressions.ts'
import type { EventScope } from './scope.ts'
import { eventsTable, eventValuesTable } from './tables.ts'
import { selectFoldedChunks, selectFoldedRows, selectUnfolded, valueChunksTable } from './value-chunks.ts'

/** What questions read: events or their values, and the tables that hold them. Rollups count both tables of values as one. */
export type Stored = { name: 'events' | 'event_values'; tables: readonly Table[] }

export const storedEvents: Stored = { name: 'events', tables: [eventsTable] }
export const storedValues: Stored = { name: 'event_values', tables: [eventValuesTable, valueChunksTable] }

/** Conditions on what is read. */
export type Conditions = {
  /** On columns that rows and chunks have in common. */
  common: string
  /** What is true of every chunk that has a value in question. */
  chunks?: string | undefined
  /** On each event or value. */
  each?: string | undefined
}

/** The conditions of a scope, and further ones on what rows and chunks have in common, and on each event or value. */
export const inScope = (scope: EventScope, common?: string, each?: string): Conditions => ({
  common: and(ofModel(scope), ofVersion(scope), common) as string,
  chunks: touchesTimes(scope),
  each: and(ofTimes(scope), each),
})

/**
 * A query of the rows of one table. Chunks become a row for each value.
 *
 * @param once `FINAL`, or nothing: repeated deliveries are read as well; by `LIMIT 1 BY` where few rows are read
 */
export function selectStored(
  database: string,
  table: Table,
  columns: string,
  { common, chunks, each }: Conditions,
  once: 'final' | 'limit' | undefined = undefined,
): string {
  if (table.name === valueChunksTable.name) {
    return selectUnfolded(`(${selectOnce(database, table, '*', and(common, chunks), once)})`, columns, each)
  }
  return selectOnce(database, table, columns, and(common, each), once)
}

/** A query of the values of one table as arrays: those of a chunk, and of the rows of a thousand claims. */
export function selectFolded(database: string, table: Table, common: string, once?: 'final' | 'limit'): string {
  const from = `(${selectOnce(database, table, '*', common, once)})`
  return table.name === valueChunksTable.name ? selectFoldedChunks(from) : selectFoldedRows(from)
}

function selectOnce(
  database: string,
  table: Table,
  columns: string,
  condition: string | undefined,
  once: 'final' | 'limit' | undefined,
): string {
  const isOfChunks = table.name === valueChunksTable.name
  const key = isOfChunks ? [...table.primaryKey, ...table.identity] : ['claim', 'place']
  const limit =
    once === 'limit' ? ` LIMIT 1 BY ${[...(table === eventValuesTable ? ['name'] : []), ...key].join(', ')}` : ''
  return `SELECT ${columns} FROM ${database}.${table.name}${once === 'final' ? ' FINAL' : ''} WHERE ${condition}${limit}`
}

/** A query of the values of both tables. */
export const selectValues = (database: string, columns: string, conditions: Conditions, once?: 'final'): string =>
  storedValues.tables.map((it) => selectStored(database, it, columns, conditions, once)).join(' UNION ALL ')
