import type { Queries } from './database.ts'

/** The health of Postgres, for operators. */
export type PostgresState = {
  /** As the server counts: 180004 is 18.4. */
  versionNumber: number
  version: string
  databaseBytes: number
  connections: number
  connectionsMax: number
  /** True for one that takes no writes: a standby. */
  isInRecovery: boolean
  fsync: string
  synchronousCommit: string
  /** The age of the oldest open transaction, which keeps dead rows from being vacuumed. */
  oldestTransactionSeconds: number
  nowMs: number
}

export async function readPostgresState(queries: Queries): Promise<PostgresState> {
  const row = await queries.row<PostgresState>(
    `SELECT current_setting('server_version_num')::int AS "versionNumber", current_setting('server_version') AS version,
       pg_database_size(current_database())::float8 AS "databaseBytes",
       (SELECT count(*)::int FROM pg_stat_activity WHERE backend_type = 'client backend') AS connections,
       current_setting('max_connections')::int AS "connectionsMax", pg_is_in_recovery() AS "isInRecovery",
       current_setting('fsync') AS fsync, current_setting('synchronous_commit') AS "synchronousCommit",
       coalesce((SELECT extract(epoch FROM max(clock_timestamp() - xact_start)) FROM pg_stat_activity
         WHERE datname = current_database() AND pid <> pg_backend_pid()), 0)::float8 AS "oldestTransactionSeconds",
       (extract(epoch FROM clock_timestamp()) * 1000)::float8 AS "nowMs"`,
  )
  return row as PostgresState
}
