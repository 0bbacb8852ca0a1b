import { readdirSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { runner } from 'node-pg-migrate'
import pg from 'pg'
import type { Queries } from './database.ts'
import { checkRestored } from './restore-mark.ts'

const folder = fileURLToPath(new URL('./migrations', import.meta.url))
const migrationsTable = 'svc_migrations'
const attemptsMax = 5

const silent = { debug: nothing, info: nothing, warn: nothing, error: nothing }
function nothing() {}

/** The migrations of this version, in their order. */
export function migrationNames(): string[] {
  return readdirSync(folder)
    .map((file) => file.replace(/\.sql$/, ''))
    .sort()
}

/**
 * Brings Postgres forward to the schema this version needs. Safe to repeat, and to run twice at once.
 *
 * @param count stop after so many migrations: for the schema of an earlier version
 */
export async function migratePostgres(url: string, count = Number.POSITIVE_INFINITY): Promise<void> {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 10_000 })
  client.on('error', () => undefined)
  await client.connect()
  try {
    await runner({
      dbClient: client,
      dir: folder,
      direction: 'up',
      migrationsTable,
      count,
      // A second process waits, and then finds nothing to do.
      advisoryLockMode: 'wait',
      logger: silent,
    })
  } finally {
    await client.end()
  }
}

/**
 * Resolves when Postgres has every migration of this version.
 *
 * @throws Error that says what to do
 */
export async function checkPostgres(database: Queries): Promise<void> {
  await waitForAnswer(database)
  await checkRestored(database)
  const needed = migrationNames()
  const table = await database.row<{ found: string | null }>('SELECT to_regclass($1)::text AS found', [migrationsTable])
  const done = table?.found ? await database.rows<{ name: string }>(`SELECT name FROM ${migrationsTable}`) : []
  const names = new Set(done.map((it) => it.name))
  const missing = needed.filter((name) => !names.has(name))
  if (missing.length > 0) {
    throw new Error(`Postgres is on an older schema (missing: ${missing.join(', ')}): run "svc migrate" first.`)
  }
}

/** Where everything starts at once, Postgres may take longer than a request may wait. One that refuses is not waited for. */
async function waitForAnswer(database: Queries) {
  for (let attempt = 1; ; attempt++) {
    try {
      return await database.rows('SELECT 1')
    } catch (error) {
      if (attempt === attemptsMax || (error as Error).name !== 'StoreAway') throw error
    }
  }
}
