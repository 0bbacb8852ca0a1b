import { type AddressInfo, connect, createServer } from 'node:net'
import pg from 'pg'
import { afterEach, describe, expect, inject, it } from 'vitest'
import { openClickHouse } from '../../store/clickhouse/connection.ts'
import { checkClickHouse } from '../../store/clickhouse/migrations/check.ts'
import { migrateClickHouse } from '../../store/clickhouse/migrations/migrate.ts'
import { insertAudit, listAudit } from '../../store/postgres/accounts/audit.ts'
import { checkChain, readChain } from '../../store/postgres/accounts/audit-chain.ts'
import { openDatabase } from '../../store/postgres/database.ts'
import { checkPostgres, migratePostgres, migrationNames } from '../../store/postgres/migrate.ts'
import { uniqueName } from '../kit/service.ts'

const closers: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const close of closers.splice(0).toReversed()) await close()
})

function withDatabase(url: string, name: string): string {
  const changed = new URL(url)
  changed.pathname = `/${name}`
  return changed.href
}

/** An empty database of Postgres, and a way to look into it. */
async function createDatabase() {
  const { postgresUrl } = inject('stores')
  const name = uniqueName('migrations').replaceAll('-', '_')
  const client = new pg.Client({ connectionString: postgresUrl })
  await client.connect()
  await client.query(`CREATE DATABASE ${name}`)
  closers.push(async () => {
    await client.query(`DROP DATABASE ${name} WITH (FORCE)`)
    await client.end()
  })
  const url = withDatabase(postgresUrl, name)
  const database = openDatabase({ url, connectionsMax: 1, onError: () => undefined })
  closers.push(() => database.close())
  return { url, database }
}

function openNewClickHouse() {
  const name = uniqueName('migrations').replaceAll('-', '_')
  const clickhouse = openClickHouse({ url: withDatabase(inject('stores').clickhouseUrl, name) })
  closers.push(async () => {
    await clickhouse.command(`DROP DATABASE IF EXISTS ${name}`)
    await clickhouse.close()
  })
  return clickhouse
}

describe('migrations of Postgres', () => {
  const readSchema = async (database: Awaited<ReturnType<typeof createDatabase>>['database']) => {
    const columns = await database.rows(
      `SELECT table_name, column_name, data_type FROM information_schema.columns WHERE table_schema = 'public' ORDER BY 1, 2`,
    )
    const done = await database.rows<{ name: string }>('SELECT name FROM svc_migrations ORDER BY id')
    return { columns, done: done.map((it) => it.name) }
  }

  it('can be repeated, and change nothing then', async () => {
    const { url, database } = await createDatabase()
    await migratePostgres(url)
    const once = await readSchema(database)
    await database.row(`INSERT INTO organizations (name) VALUES ('kept')`)

    await migratePostgres(url)

    expect(await readSchema(database)).toEqual(once)
    expect(await database.rows('SELECT name FROM organizations')).toEqual([{ name: 'kept' }])
    await checkPostgres(database)
  })

  it('can run many times at once on an empty database', async () => {
    const { url, database } = await createDatabase()

    await Promise.all(Array.from({ length: 4 }, () => migratePostgres(url)))

    await checkPostgres(database)
    const { done } = await readSchema(database)
    expect(new Set(done).size).toBe(done.length)
  })

  it('entries of the audit log from before it was a chain are chained, in the order of their times', async () => {
    const { url, database } = await createDatabase()
    await migratePostgres(url, migrationNames().indexOf('0032_audit_chain'))
    await database.rows(
      `WITH made AS (INSERT INTO organizations (name) VALUES ('first'), ('second') RETURNING id)
       INSERT INTO audit_log (organization_id, actor, act, subject, details, at)
       SELECT id, 'somebody', 'limits.set', 'entry ' || n, jsonb_build_object('n', n), now() - interval '1 minute' * (n % 7)
       FROM made, generate_series(1, 500) n`,
    )
    await migratePostgres(url)
    const organizations = await database.rows<{ id: string }>('SELECT id FROM organizations')
    expect(organizations).toHaveLength(2)
    for (const { id } of organizations) {
      expect(await readChain(database, id, checkChain)).toMatchObject({ entries: 500, faults: [] })
      await insertAudit(database, { organizationId: id, userName: 'later' }, 'limits.set', 'subject')
      const entries = await readChain(database, id, (chain) => Array.fromAsync(chain))
      expect(await checkChain(entries, undefined)).toMatchObject({ entries: 501, faults: [] })
      const listed = await listAudit(database, { organizationId: id, beforeId: undefined, limit: 1_000 })
      expect(listed.map((it) => it.subject)).toEqual(entries.toReversed().map((it) => it.subject))
    }
  })

  it('a database without them is rejected with what to do', async () => {
    const { database } = await createDatabase()
    await expect(checkPostgres(database)).rejects.toThrow(/older schema \(missing: .+\): run "svc migrate" first/)
  })

  it('a database that is slow to answer a first connection is waited for', async () => {
    const { url } = await createDatabase()
    await migratePostgres(url)
    const { hostname, port } = new URL(url)
    let connections = 0
    const slow = createServer((socket) => {
      socket.on('error', () => undefined)
      // The first is accepted and never answered.
      if (++connections === 1) return
      const real = connect(Number(port), hostname)
      real.on('error', () => undefined)
      socket.pipe(real).pipe(socket)
    })
    await new Promise<void>((listening) => slow.listen(0, '127.0.0.1', listening))
    closers.push(async () => slow.close())
    const address = new URL(url)
    address.host = `127.0.0.1:${(slow.address() as AddressInfo).port}`
    const settings = { url: address.href, connectionsMax: 1, connectWaitMs: 3_000, onError: () => undefined }
    const database = openDatabase(settings)
    closers.push(database.close)

    await checkPostgres(database)

    expect(connections).toBeGreaterThan(1)
  })
})

describe('migrations of ClickHouse', () => {
  it('can be repeated and run many times at once', async () => {
    const clickhouse = openNewClickHouse()

    await Promise.all(Array.from({ length: 4 }, () => migrateClickHouse(clickhouse)))
    await migrateClickHouse(clickhouse)

    await expect(checkClickHouse(clickhouse)).resolves.toBeUndefined()
  })

  it('a database without its tables is rejected with what to do', async () => {
    const clickhouse = openNewClickHouse()
    await expect(checkClickHouse(clickhouse)).rejects.toThrow(/has no table .+\.points: run "svc migrate" first/)
  })

  it('a table that would keep repeated rows is rejected with the right definition', async () => {
    const clickhouse = openNewClickHouse()
    await migrateClickHouse(clickhouse)
    await clickhouse.command(`DROP TABLE ${clickhouse.database}.output_lines`)
    await clickhouse.command(
      `CREATE TABLE ${clickhouse.database}.output_lines (experiment_id UInt64) ENGINE = MergeTree ORDER BY experiment_id`,
    )

    await expect(checkClickHouse(clickhouse)).rejects.toThrow(
      /output_lines would keep a repeated insert twice: its engine is MergeTree ORDER BY \(experiment_id\)\. .*svc migrate/,
    )
  })
})
