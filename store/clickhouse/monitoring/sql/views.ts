import { type Layout, onCluster, toSharedEngine } from '../../cluster/layout.ts'
import { createTable } from '../../tables.ts'
import { selectStored, selectValues } from '../stored.ts'
import { eventsTable, tombstonesTable, valueColumnNames } from '../tables.ts'
import { valueChunksTable } from '../value-chunks.ts'

/** The values of both tables. */
export const valuesView = {
  name: 'sql_event_values',
  select: (database: string, common: string) => selectValues(database, valueColumnNames, { common }),
} as const

/**
 * All that the SQL of callers can read. The user that runs such SQL may select from these views and from nothing else. They
 * read the tables with the rights of the user that made them, and show the rows of those models only whose token the
 * statement carries. Without a token they are empty.
 *
 * A setting alone would not do: with `readonly=1` ClickHouse refuses `SETTINGS` of a statement, but not those of a subquery
 * (measured with 26.7). A token cannot be guessed, and the table of tokens cannot be read.
 */
export const sqlViews = [
  {
    name: 'sql_events',
    select: (database: string, common: string) =>
      selectStored(
        database,
        eventsTable,
        'model_id, kind, claim, place, version, timestamp, received, prediction_id, id_hash',
        { common },
      ),
  },
  valuesView,
  {
    name: 'sql_voided_events',
    select: (database: string, common: string) =>
      selectStored(database, tombstonesTable, 'model_id, kind, claim, place', { common }),
  },
] as const

/** The tokens of models. Not backed up: they are made when they are needed. */
export const sqlTokensTable = 'sql_tokens'

/** The setting that carries tokens, separated by commas. Any server has it, and it changes nothing. */
export const tokensSetting = 'log_comment'

export const createSqlViews = (layout: Layout, settings: string): string[] => [
  // A view is checked when it is made. Earlier versions have no such table yet when they come here.
  ...createTable(layout, valueChunksTable),
  `CREATE TABLE IF NOT EXISTS ${layout.database}.${sqlTokensTable}${onCluster(layout)} (token String, model_id UInt64)
    ENGINE = ${toSharedEngine(layout, sqlTokensTable, 'ReplacingMergeTree')} ORDER BY (token, model_id)
    SETTINGS ${settings}`,
  ...sqlViews.map((it) => createView(layout, it, 'CREATE VIEW IF NOT EXISTS')),
]

/** Makes the view of values anew, which earlier versions had of one table. */
export const replaceSqlValues = (layout: Layout) => createView(layout, valuesView, 'CREATE OR REPLACE VIEW')

function createView(layout: Layout, { name, select }: (typeof sqlViews)[number], create: string): string {
  const { database } = layout
  const isOpen = `model_id IN (SELECT model_id FROM ${database}.${sqlTokensTable}
      WHERE has(splitByChar(',', getSetting('${tokensSetting}')), token))`
  return `${create} ${database}.${name}${onCluster(layout)} DEFINER = CURRENT_USER SQL SECURITY DEFINER
    AS ${select(database, isOpen)}`
}
