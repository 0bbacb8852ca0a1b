import type { ClickHouse } from '../connection.ts'

/** One step of the schema. `migrate.ts` says what a migration must keep to. */
export type Migration = {
  /** The name of its file, without `.ts`. Stored in `svc_migrations`, so it never changes. */
  name: string
  /**
   * @param say prints progress; for steps that take longer than a few seconds
   * @param earlier the tables and views, of any server, from before the first migration of this run
   */
  up(clickhouse: ClickHouse, say: (text: string) => void, earlier: ReadonlySet<string>): Promise<void>
}
