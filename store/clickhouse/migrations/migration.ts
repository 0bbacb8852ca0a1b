import type { ClickHouse } from '../connection.ts'

/** One step of the schema. `migrate.ts` says what a migration must keep to. */
export type Migration = {
  /** The name of its file, without `.ts`. Stored in `svc_migrations`, so it never changes. */
  name: string
  /** @param say prints progress; for steps that take longer than a few seconds */
  up(clickhouse: ClickHouse, say: (text: string) => void): Promise<void>
}
