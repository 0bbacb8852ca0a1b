import { type Layout, onCluster, toSharedEngine } from '../../cluster/layout.ts'
import { eventsTable, eventValuesTable, tombstonesTable } from '../tables.ts'

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
    table: eventsTable.name,
    columns: 'model_id, kind, claim, place, version, timestamp, received, prediction_id, id_hash',
  },
  {
    name: 'sql_event_values',
    table: eventValuesTable.name,
    columns: 'model_id, kind, version, part, name, timestamp, claim, place, type, number, text',
  },
  { name: 'sql_voided_events', table: tombstonesTable.name, columns: 'model_id, kind, claim, place' },
] as const

/** The tokens of models. Not backed up: they are made when they are needed. */
export const sqlTokensTable = 'sql_tokens'

/** The setting that carries tokens, separated by commas. Any server has it, and it changes nothing. */
export const tokensSetting = 'log_comment'

export const createSqlViews = (layout: Layout, settings: string): string[] => [
  `CREATE TABLE IF NOT EXISTS ${layout.database}.${sqlTokensTable}${onCluster(layout)} (token String, model_id UInt64)
    ENGINE = ${toSharedEngine(layout, sqlTokensTable, 'ReplacingMergeTree')} ORDER BY (token, model_id)
    SETTINGS ${settings}`,
  ...sqlViews.map(
    ({ name, table, columns }) => `CREATE VIEW IF NOT EXISTS ${layout.database}.${name}${onCluster(layout)}
    DEFINER = CURRENT_USER SQL SECURITY DEFINER
    AS SELECT ${columns} FROM ${layout.database}.${table}
    WHERE model_id IN (SELECT model_id FROM ${layout.database}.${sqlTokensTable}
      WHERE has(splitByChar(',', getSetting('${tokensSetting}')), token))`,
  ),
]
