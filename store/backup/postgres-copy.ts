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
 * Copies Postgres table by table in one snapshot. Not with pg_dump: it must be as new as the server, and the embedded server
 * has none. The copy has only rows; the migrations make the schema, so it restores into any version of Postgres.
 */
type PostgresCopy = Manifest['postgres'] & { masterKey: string | null; objectKeys: string[]; deadLetters: string[] }

/** Tables about the state of the schema. */
const notCopied = ['svc_migrations', restoreMark]

const lockWaitMs = 5_000
const lockAttempts = 12
const connectWaitMs = 10_000

async function connect(url: string): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: connectWaitMs, keepAlive: true })
  // The current or the next query fails with the same error.
  client.on('error', () => undefined)
  await client.connect()
  return client
}

/** Copies all tables in one snapshot. No event is claimed at that moment, so no claim up to `lastClaim` is missing. */
export async function copyPostgres(url: string, files: Files): Promise<PostgresCopy> {
  const client = await connect(url)
  try {
    const lastClaim = await withClaimsLocked(url, async () => {
      await client.query('BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY')
      // The first query takes the snapshot.
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
      // Filled in at the end: the other stores may contain ids that are newer than the snapshot.
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
 * Copies the dead letters added since the snapshot: their blocks were in the queue then, and may have left it before the queue
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

/** The last value of each sequence. */
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

/** Waits for claims in progress, and blocks new ones during `work`: some milliseconds. */
async function withClaimsLocked<T>(url: string, work: () => Promise<T>): Promise<T> {
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

/** What prevents a restore into a database: other connections, and its contents. */
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

/** The rows of an unused database: the first start makes an admin. */
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
 * Deletes everything in the database and marks it: no role starts on it until the mark is removed.
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
           AND NOT EXISTS (SELECT 1 FROM pg_depend d WHERE d.objid = p.oid AND d.deptype = 'e')
       UNION ALL
       SELECT format('DROP COLLATION %I CASCADE', collname) FROM pg_collation
         WHERE collnamespace = current_schema()::regnamespace
       UNION ALL
       SELECT format('DROP TYPE %I CASCADE', typname) FROM pg_type t
         WHERE typnamespace = current_schema()::regnamespace AND typtype = 'e'
           AND NOT EXISTS (SELECT 1 FROM pg_depend d WHERE d.objid = t.oid AND d.deptype = 'e')`,
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

/** Removes the mark, so that roles start on the database again. */
export async function removeMark(url: string): Promise<void> {
  const client = await connect(url)
  try {
    await client.query(`DROP TABLE IF EXISTS ${restoreMark}`)
  } finally {
    await client.end()
  }
}

/** Throws unless the migrations of the backup are the first ones of this version. */
export function checkMigrations({ migrations }: Manifest['postgres']): void {
  const unknown = migrations.filter((name, at) => migrationNames()[at] !== name)
  if (unknown.length === 0) return
  throw new Error(
    `The backup was made by a newer version of svc, with unknown migrations (${unknown.join(', ')}). Restore it with that ` +
      'version or a later one.',
  )
}

/** Makes the tables of the backup's version, fills them in one transaction, and migrates them to this version. */
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
    // Foreign keys form a circle, so no order of tables satisfies them: add them after all rows.
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
