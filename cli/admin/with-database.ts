import { type Database, openDatabase } from '../../store/postgres/database.ts'
import { checkPostgres } from '../../store/postgres/migrate.ts'
import { nameStoreError } from '../store-error.ts'

/**
 * Does a command's work in Postgres, without the service, and closes the connection.
 *
 * @throws Error that says what to do when Postgres does not answer or is on an older schema
 */
export async function withDatabase<T>(postgresUrl: string, work: (database: Database) => Promise<T>): Promise<T> {
  const database = openDatabase({ url: postgresUrl, connectionsMax: 1, onError: () => undefined })
  try {
    await nameStoreError('Postgres', postgresUrl, checkPostgres(database))
    return await work(database)
  } finally {
    await database.close()
  }
}
