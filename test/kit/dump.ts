import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { pathToFileURL } from 'node:url'
import { expect } from 'vitest'
import type { StoreUrls } from '../../cli/settings.ts'
import type { Closers } from '../../runtime/closers.ts'
import { openClickHouse } from '../../store/clickhouse/connection.ts'
import { type Database, openDatabase } from '../../store/postgres/database.ts'
import { openOwnStores, type QueueKind } from './service.ts'
import { startRedisServer } from './stores/redis.ts'

/**
 * Stores of this test alone, which can be searched completely: every row of Postgres (with its queue) and ClickHouse,
 * everything that was ever written to Redis, every object.
 */
export async function openSearchableStores(queue: QueueKind, closers: Closers) {
  const folder = await mkdtemp(path.join(tmpdir(), 'svc-dump-'))
  closers.push(() => rm(folder, { recursive: true, force: true }))
  const redis = queue === 'redis' ? await startRedisServer({ folder }) : undefined
  if (redis) closers.push(redis.close)
  const objects = path.join(folder, 'objects')
  const own = await openOwnStores(queue)
  const stores: StoreUrls = { ...own, redisUrl: redis?.url, objectsUrl: pathToFileURL(objects).href }
  const database = openDatabase({ url: stores.postgresUrl, onError: () => undefined })
  closers.push(() => database.close())
  return {
    stores,
    database,
    async dump(): Promise<Record<string, string>> {
      return {
        Postgres: await dumpPostgres(database),
        ClickHouse: await dumpClickHouse(stores.clickhouseUrl),
        // The append-only file has every command, also for deleted keys.
        ...(redis && { Redis: await dumpFolder(path.join(folder, 'appendonlydir')) }),
        'the objects': await dumpFolder(objects),
      }
    },
  }
}

/** Fails when a text occurs in a place, as it is or in base64 or hex. */
export function expectNowhere(clear: Record<string, string>, places: Record<string, string>) {
  for (const [what, text] of Object.entries(clear)) {
    expect(text.length, what).toBeGreaterThan(20)
    const forms = [text, Buffer.from(text).toString('base64').replace(/=+$/, ''), Buffer.from(text).toString('hex')]
    for (const [place, content] of Object.entries(places)) {
      for (const form of forms) expect(content.includes(form), `${what} in ${place}`).toBe(false)
    }
  }
}

/** Every value of every table as text; bytes also as latin1 and base64. */
async function dumpPostgres(database: Database): Promise<string> {
  const columns = await database.rows<{ table: string; column: string; type: string }>(
    `SELECT format('%I.%I', table_schema, table_name) AS "table", format('%I', column_name) AS "column", data_type AS type
     FROM information_schema.columns JOIN information_schema.tables USING (table_schema, table_name)
     WHERE table_type = 'BASE TABLE' AND table_schema NOT IN ('pg_catalog', 'information_schema')`,
  )
  const texts: string[] = []
  for (const { table, column, type } of columns) {
    const rows = await database.rows<{ value: string | Buffer | null }>(
      `SELECT ${type === 'bytea' ? column : `${column}::text`} AS value FROM ${table}`,
    )
    for (const { value } of rows) {
      if (Buffer.isBuffer(value)) texts.push(value.toString('latin1'), value.toString('hex'), value.toString('base64'))
      else if (value !== null) texts.push(value)
    }
  }
  return texts.join('\n')
}

/** Every row of every table, in RowBinary, where strings are not encoded. */
async function dumpClickHouse(url: string): Promise<string> {
  const clickhouse = openClickHouse({ url })
  try {
    const tables = await clickhouse.rows<{ name: string }>(
      `SELECT name FROM system.tables WHERE database = {database:String} AND engine LIKE '%MergeTree'`,
      { database: clickhouse.database },
    )
    const texts = tables.map(async ({ name }) => {
      const rows = await clickhouse.stream(`SELECT * FROM ${clickhouse.database}.${name} FORMAT RowBinary`)
      return Buffer.concat(await rows.toArray()).toString('latin1')
    })
    return (await Promise.all(texts)).join('\n')
  } finally {
    await clickhouse.close()
  }
}

async function dumpFolder(folder: string): Promise<string> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true })
  const files = entries.filter((it) => it.isFile()).map((it) => path.join(it.parentPath, it.name))
  return (await Promise.all(files.map(async (it) => `${it}\n${await readFile(it, 'latin1')}`))).join('\n')
}
