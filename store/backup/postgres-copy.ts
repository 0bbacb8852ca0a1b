import type { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import pg from 'pg'
import { from as copyFrom, to as copyTo } from 'pg-copy-streams'
import { referrers } from '../postgres/assets/orphaned-objects.ts'
import { migratePostgres, migrationNames } from '../postgres/migrate.ts'
import { restoreMark } from '../postgres/restore-mark.ts'
import type { Files } from './files.ts'
import type { Manifest } from './manifest.ts'

/**
 * Postgres, copied table by table in one snapshot. Not with pg_dump: it must be as new as the server, and the embedded
 * server comes without one. What the tables are like is not part of the copy but made by the migrations, so that it can be
 * restored into any version of Postgres.
 */
type PostgresCopy = Manifest['postgres'] & { masterKey: string | null; objectKeys: string[]; deadLetters: string[] }

/** Tables that say how the others came to be. */
const notCopied = ['svc_migrations', restoreMark]

const lockWaitMs = 5_000
const lockAttempts = 12
const connectWaitMs = 10_000

async function connect(url: string): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: connectWaitMs, keepAlive: true })
  // The query under way fails with it, or else the next one.
  client.on('error', () => undefined)
  await client.connect()
  return client
}

/** Copies all tables as they are at one moment. No event is claimed at that moment, so that all claims up to the last are there. */
export async function copyPostgres(url: string, files: Files): Promise<PostgresCopy> {
  const client = await connect(url)
  try {
    const lastClaim = await whileNothingIsClaimed(url, async () => {
      await client.query('BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY')
      // The first query is what the snapshot is taken at.
      return await readText(
        client,
        "SELECT coalesce(max(last_value), 0)::text FROM pg_sequences WHERE sequencename = 'open_claims_claim_seq' AND schemaname = current_schema()",
      )
    })
    const found = await listTables(client)
    const tables: PostgresCopy['tables'] = []
    for (const { name, columns } of found) {
      const file = `postgres/${name}.copy.zst`
      const stream = client.query(copyTo(`COPY ${quote(name)} (${columns.map(quote).join(', ')}) TO STDOUT`))
      await files.putCompressed(file, stream)
      tables.push({ name, columns, rows: stream.rowCount, file })
    }
    const { rows: migrations } = await client.query<{ name: string }>('SELECT name FROM svc_migrations ORDER BY id')
    const { rows: letters } = await client.query<{ id: string }>('SELECT id::text FROM dead_letters')
    const { rows: objects } = await client.query<{ key: string }>(
      referrers.map((it) => `SELECT object_key AS key FROM ${it} WHERE object_key IS NOT NULL`).join(' UNION '),
    )
    const copy = {
      version: await readText(client, "SELECT current_setting('server_version')"),
      migrations: migrations.map((it) => it.name),
      tables,
      // As of now and not of the snapshot: what was numbered meanwhile may be in the other stores.
      sequences: {},
      lastClaim,
      masterKey: await readText(client, "SELECT max(encode(fingerprint, 'hex')) FROM master_key"),
      deadLetters: letters.map((it) => it.id),
      objectKeys: objects.map((it) => it.key),
    }
    await client.query('COMMIT')
    return copy
  } finally {
    await client.end()
  }
}

/**
 * Copies what was set aside since the tables were copied: it was in the queue then, and may have left it before the queue
 * was copied.
 */
export async function copyLaterDeadLetters(
  url: string,
  files: Files,
  known: string[],
): Promise<PostgresCopy['tables']> {
  const client = await connect(url)
  try {
    const table = (await listTables(client)).find((it) => it.name === 'dead_letters')
    if (!table) return []
    const file = 'postgres/dead_letters.later.copy.zst'
    const columns = table.columns.map(quote).join(', ')
    const stream = client.query(
      copyTo(`COPY (SELECT ${columns} FROM dead_letters WHERE id <> ALL ('{${known.join()}}')) TO STDOUT`),
    )
    await files.putCompressed(file, stream)
    return [{ ...table, rows: stream.rowCount, file }]
  } finally {
    await client.end()
  }
}

/** The last number that each sequence has given. */
export async function readSequences(url: string): Promise<Record<string, string>> {
  const client = await connect(url)
  try {
    const { rows } = await client.query<{ name: string; last: string }>(
      `SELECT sequencename AS name, last_value::text AS last FROM pg_sequences
       WHERE schemaname = current_schema() AND last_value IS NOT NULL`,
    )
    return Object.fromEntries(rows.map(({ name, last }) => [name, last]))
  } finally {
    await client.end()
  }
}

/** Waits for claims that are being made, and lets none begin until `work` is done: some milliseconds. */
async function whileNothingIsClaimed<T>(url: string, work: () => Promise<T>): Promise<T> {
  const locking = await connect(url)
  try {
    for (let attempt = 1; ; attempt++) {
      await locking.query('BEGIN')
      await locking.query(`SET LOCAL lock_timeout = ${lockWaitMs}`)
      try {
        await locking.query('LOCK TABLE open_claims IN SHARE MODE')
        return await work()
      } catch (error) {
        await locking.query('ROLLBACK')
        if ((error as { code?: string }).code !== lockNotAvailable || attempt === lockAttempts) throw error
      }
    }
  } finally {
    await locking.end()
  }
}
const lockNotAvailable = '55P03'

async function listTables(client: pg.Client): Promise<{ name: string; columns: string[] }[]> {
  const { rows } = await client.query<{ name: string; columns: string[] }>(
    `SELECT c.relname AS name, array_agg(a.attname::text ORDER BY a.attnum) AS columns
     FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0
     WHERE c.relkind = 'r' AND c.relnamespace = current_schema()::regnamespace AND NOT a.attisdropped
       AND a.attgenerated = '' AND c.relname <> ALL ($1)
     GROUP BY c.relname ORDER BY c.relname`,
    [notCopied],
  )
  return rows
}

/** What stands in the way of restoring into a database: who else uses it, and what is in it. */
export async function examinePostgres(
  url: string,
): Promise<{ connections: number; isRestoring: boolean; holds: string[] }> {
  const client = await connect(url)
  try {
    const connections = await readText(
      client,
      `SELECT count(*)::text FROM pg_stat_activity
       WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'`,
    )
    const holds: string[] = []
    for (const [table, least] of Object.entries(signsOfUse)) {
      if ((await readText(client, `SELECT to_regclass('${table}')::text`)) === null) continue
      const rows = Number(await readText(client, `SELECT count(*)::text FROM (SELECT 1 FROM ${table} LIMIT 1000) t`))
      if (rows > least) holds.push(`${rows === 1000 ? '1000 or more' : rows} ${table.replaceAll('_', ' ')}`)
    }
    const isRestoring = (await readText(client, `SELECT to_regclass('${restoreMark}')::text`)) !== null
    return { connections: Number(connections), isRestoring, holds }
  } finally {
    await client.end()
  }
}

/** How many rows there are in the tables of a database that nobody has used yet: the first start makes an admin. */
const signsOfUse = {
  experiments: 0,
  monitored_models: 0,
  registry_models: 0,
  artifacts: 0,
  users: 1,
  workspaces: 1,
  organization_secrets: 0,
  webhook_receivers: 0,
  alert_rules: 0,
  dead_letters: 0,
}

/**
 * Takes all that is in the database away and marks it: until the mark is taken away no role starts on it.
 */
export async function clearPostgres(url: string, backupId: string): Promise<void> {
  const client = await connect(url)
  try {
    await client.query('BEGIN')
    await client.query('DROP SCHEMA IF EXISTS bullmq CASCADE')
    const { rows } = await client.query<{ statement: string }>(
      `SELECT format('DROP TABLE %I CASCADE', relname) AS statement FROM pg_class
         WHERE relkind IN ('r', 'p') AND relnamespace = current_schema()::regnamespace
       UNION ALL
       SELECT format('DROP FUNCTION %s CASCADE', oid::regprocedure) FROM pg_proc p
         WHERE pronamespace = current_schema()::regnamespace AND prokind = 'f'
           AND NOT EXISTS (SELECT 1 FROM pg_depend d WHERE d.objid = p.oid AND d.deptype = 'e')`,
    )
    for (const { statement } of rows) await client.query(statement)
    await client.query(
      `CREATE TABLE ${restoreMark} (backup_id text NOT NULL, started_at timestamptz NOT NULL DEFAULT now())`,
    )
    await client.query(`INSERT INTO ${restoreMark} (backup_id) VALUES ($1)`, [backupId])
    await client.query('COMMIT')
  } finally {
    await client.end()
  }
}

/** Lets roles start on the database again. */
export async function takeMarkAway(url: string): Promise<void> {
  const client = await connect(url)
  try {
    await client.query(`DROP TABLE IF EXISTS ${restoreMark}`)
  } finally {
    await client.end()
  }
}

/** Fails when the migrations of a backup are not the first ones of this version. */
export function checkMigrations({ migrations }: Manifest['postgres']): void {
  const unknown = migrations.filter((name, at) => migrationNames()[at] !== name)
  if (unknown.length === 0) return
  throw new Error(
    `The backup was made by a newer version of svc, whose migrations this one does not have (${unknown.join(', ')}): ` +
      'restore it with that version, or a later one.',
  )
}

/** Makes the tables as they were and fills them, in one transaction, and brings them to this version. */
export async function restorePostgres(
  url: string,
  { migrations, tables, sequences }: Manifest['postgres'],
  open: (file: string) => Promise<Readable>,
): Promise<void> {
  await migratePostgres(url, migrations.length)
  const client = await connect(url)
  try {
    await client.query('BEGIN')
    const names = new Set(tables.map((it) => it.name))
    if (names.size > 0) await client.query(`TRUNCATE ${[...names].map(quote).join(', ')}`)
    // References go in a circle, so no order of tables keeps them: they are checked when all rows are there.
    const { rows: references } = await client.query<{ table: string; name: string; definition: string }>(
      `SELECT conrelid::regclass::text AS "table", quote_ident(conname) AS name, pg_get_constraintdef(oid) AS definition
       FROM pg_constraint WHERE contype = 'f' AND connamespace = current_schema()::regnamespace`,
    )
    for (const it of references) await client.query(`ALTER TABLE ${it.table} DROP CONSTRAINT ${it.name}`)
    for (const { name, columns, rows, file } of tables) {
      const stream = client.query(copyFrom(`COPY ${quote(name)} (${columns.map(quote).join(', ')}) FROM STDIN`))
      await pipeline(await open(file), stream)
      if (stream.rowCount !== rows) throw new Error(`The file ${file} has ${stream.rowCount} rows, not ${rows}.`)
    }
    for (const it of references)
      await client.query(`ALTER TABLE ${it.table} ADD CONSTRAINT ${it.name} ${it.definition}`)
    for (const [name, last] of Object.entries(sequences)) {
      await client.query('SELECT setval($1::regclass, $2)', [quote(name), last])
    }
    await client.query('COMMIT')
    await client.query('ANALYZE')
  } finally {
    await client.end()
  }
  await migratePostgres(url)
}

async function readText(client: pg.Client, sql: string): Promise<string> {
  const { rows } = await client.query<string[]>({ text: sql, rowMode: 'array' } as never)
  return rows[0]?.[0] as string
}

const quote = (name: string) => pg.escapeIdentifier(name)
