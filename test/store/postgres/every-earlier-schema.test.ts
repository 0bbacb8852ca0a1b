import { readFileSync } from 'node:fs'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import { createClosers } from '../../../runtime/closers.ts'
import { checkChain, readChain } from '../../../store/postgres/accounts/audit-chain.ts'
import { openDatabase } from '../../../store/postgres/database.ts'
import { migratePostgres, migrationNames } from '../../../store/postgres/migrate.ts'
import { uniqueName } from '../../kit/service.ts'

/**
 * Every earlier schema of Postgres, with rows of that time, is brought to the newest: no row is lost or altered, and the schema
 * ends like that of a new installation.
 */
const names = migrationNames()
const toNumber = (name: string) => Number(name.slice(0, 4))

/** The SQL of each section of `earlier-rows.sql`, by the number of its migration. */
const sections = new Map(
  readFileSync(new URL('earlier-rows.sql', import.meta.url), 'utf8')
    .split(/^-- (?=\d{4}$)/m)
    .slice(1)
    .map((it) => [Number(it.slice(0, 4)), it.slice(4)]),
)

/** Columns under another name in the newest schema. */
const renamed: Record<string, string> = { 'users.is_admin_by_groups': 'is_role_by_groups' }

/** What was not part of a row any more, by the table, the column and the migration that did it. */
const cleared = [{ table: 'assets', column: 'artifact_version_id', by: 6 }]

type Rows = Record<string, Record<string, unknown>[]>
type Query = (sql: string) => Promise<Record<string, unknown>[]>

const closers = createClosers()
const prefix = uniqueName('earlier').replaceAll('-', '_')
const earlier = names.map((name, at) => ({ name, database: `${prefix}_${at + 1}`, count: at + 1 }))
const rowsAt = new Map<string, Rows>()
const newest = earlier.at(-1) as (typeof earlier)[number]
let fresh: Awaited<ReturnType<typeof readSchema>>
let run: Query

function toUrl(database: string): string {
  const url = new URL(inject('stores').postgresUrl)
  url.pathname = `/${database}`
  return url.href
}

async function within<T>(database: string, work: (query: Query) => Promise<T>): Promise<T> {
  const client = new pg.Client({ connectionString: toUrl(database) })
  await client.connect()
  try {
    return await work(async (sql) => (await client.query(sql)).rows)
  } finally {
    await client.end()
  }
}

async function readRows(query: Query): Promise<Rows> {
  const tables = await query(
    `SELECT tablename AS name FROM pg_tables WHERE schemaname = 'public' AND tablename <> 'svc_migrations' ORDER BY 1`,
  )
  const rows: Rows = {}
  for (const { name } of tables) {
    const found = await query(`SELECT to_jsonb(t) AS row FROM "${name}" t`)
    rows[name as string] = found.map((it) => it.row as Record<string, unknown>)
  }
  return rows
}

/** Everything that the migrations define, in the order of its names. */
async function readSchema(query: Query) {
  const ours = `relnamespace = 'public'::regnamespace AND relname <> 'svc_migrations'`
  const parts = {
    columns: `SELECT relname, attnum, attname, format_type(atttypid, atttypmod) AS type, attnotnull, attidentity, attgenerated,
        pg_get_expr(adbin, adrelid) AS fallback, collname FROM pg_attribute JOIN pg_class c ON c.oid = attrelid
      LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum LEFT JOIN pg_collation l ON l.oid = attcollation
      WHERE relkind IN ('r', 'v', 'm') AND attnum > 0 AND NOT attisdropped AND ${ours} ORDER BY relname, attnum`,
    constraints: `SELECT relname, conname, pg_get_constraintdef(o.oid) AS means, convalidated FROM pg_constraint o
      JOIN pg_class c ON c.oid = conrelid WHERE ${ours} ORDER BY relname, conname`,
    indexes: `SELECT indexrelid::regclass::text AS name, pg_get_indexdef(indexrelid) AS means, indisvalid FROM pg_index
      JOIN pg_class c ON c.oid = indrelid WHERE ${ours} ORDER BY 1`,
    triggers: `SELECT relname, tgname, pg_get_triggerdef(t.oid) AS means, tgenabled FROM pg_trigger t
      JOIN pg_class c ON c.oid = tgrelid WHERE NOT tgisinternal AND ${ours} ORDER BY relname, tgname`,
    functions: `SELECT oid::regprocedure::text AS name, pg_get_functiondef(oid) AS means FROM pg_proc
      WHERE pronamespace = 'public'::regnamespace AND prokind = 'f' ORDER BY 1`,
    types: `SELECT typname, enumlabel FROM pg_enum JOIN pg_type t ON t.oid = enumtypid ORDER BY typname, enumsortorder`,
    collations: `SELECT collname, collprovider, collisdeterministic FROM pg_collation
      WHERE collnamespace = 'public'::regnamespace ORDER BY 1`,
  }
  const schema: Record<string, unknown[]> = {}
  for (const [name, sql] of Object.entries(parts)) schema[name] = await query(sql)
  return schema
}

beforeAll(async () => {
  const client = new pg.Client({ connectionString: inject('stores').postgresUrl })
  await client.connect()
  closers.push(() => client.end())
  run = async (sql) => (await client.query(sql)).rows
  const [grown, freshName] = [`${prefix}_grown`, `${prefix}_fresh`]
  closers.push(async () => {
    for (const it of [grown, freshName, ...earlier.map((it) => it.database)])
      await run(`DROP DATABASE IF EXISTS ${it} WITH (FORCE)`)
  })
  await run(`CREATE DATABASE ${grown}`)
  for (const { name, database } of earlier) {
    await migratePostgres(toUrl(grown), 1)
    const section = sections.get(toNumber(name))
    rowsAt.set(
      name,
      await within(grown, async (query) => {
        if (section !== undefined) await query(section)
        return await readRows(query)
      }),
    )
    await run(`CREATE DATABASE ${database} TEMPLATE ${grown}`)
  }
  await run(`CREATE DATABASE ${freshName}`)
  await migratePostgres(toUrl(freshName))
  fresh = await within(freshName, readSchema)
}, 300_000)
afterAll(() => closers.closeAll())

describe('rows and schema of', () => {
  it.each(earlier)('$name become those of the newest version', { timeout: 120_000 }, async ({ name, database }) => {
    await migratePostgres(toUrl(database))

    const after = await within(database, readRows)
    expect(await within(database, readSchema)).toEqual(fresh)
    for (const [table, before] of Object.entries(rowsAt.get(name) as Rows)) {
      const columns = Object.keys(before[0] ?? {})
      const gone = cleared.filter((it) => it.table === table && it.by > toNumber(name)).map((it) => it.column)
      const kept = columns.filter((it) => !gone.includes(it))
      const now = (after[table] ?? []).map((row) =>
        Object.fromEntries(kept.map((it) => [it, it in row ? row[it] : row[renamed[`${table}.${it}`] ?? it]])),
      )
      const then = before.map((row) => Object.fromEntries(kept.map((it) => [it, row[it]])))
      expect(sort(now), table).toEqual(sort(then))
    }
  })
})

const sort = (rows: Record<string, unknown>[]) => rows.map((it) => JSON.stringify(it)).toSorted()

it('rows of every table stand in earlier-rows.sql', () => {
  for (const [table, rows] of Object.entries(rowsAt.get(newest.name) as Rows))
    expect(rows.length, table).toBeGreaterThan(0)
  const numbers = new Set(names.map(toNumber))
  expect([...sections.keys()].filter((it) => !numbers.has(it))).toEqual([])
})

it('the audit log of each becomes a chain that verifies', async () => {
  for (const { database, count } of earlier.filter((it) => it.count >= 9)) {
    const opened = openDatabase({ url: toUrl(database), connectionsMax: 1, onError: () => undefined })
    const [organization] = await opened.rows<{ id: string }>('SELECT id FROM organizations')
    const entries = count >= 32 ? 3 : 2
    expect(await readChain(opened, organization?.id as string, checkChain)).toMatchObject({ entries, faults: [] })
    await opened.close()
  }
})
