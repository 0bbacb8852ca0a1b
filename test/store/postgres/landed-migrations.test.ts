import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { expect, it } from 'vitest'
import { migrations } from '../../../store/clickhouse/migrations/migrate.ts'
import { migrationNames } from '../../../store/postgres/migrate.ts'

/**
 * The hash of each migration that has landed, without its comments. A new one adds its own; none is ever changed: databases
 * have it applied. Those of ClickHouse are code: what they import may change, as long as it ends in the same tables.
 */
const landed: Record<'postgres' | 'clickhouse', Record<string, string>> = JSON.parse(
  readFileSync(new URL('landed-migrations.json', import.meta.url), 'utf8'),
)

const names = migrationNames()

function toHash(file: string, comments: RegExp): string {
  const text = readFileSync(new URL(`../../../store/${file}`, import.meta.url), 'utf8')
  const statements = text.replace(comments, '').replace(/\s+/g, ' ').trim()
  return createHash('sha256').update(statements).digest('hex').slice(0, 16)
}

const hashPostgres = (name: string) => toHash(`postgres/migrations/${name}.sql`, /^\s*--(?! (Up|Down) Migration).*$/gm)
const hashClickHouse = (name: string) =>
  toHash(`clickhouse/migrations/${name}.ts`, /^\s*(\/\/.*|\/\*\*[\s\S]*?\*\/|import [^']*'[^']*')$/gm)

it.each([
  ['Postgres', names],
  ['ClickHouse', migrations.map((it) => it.name)],
])('migrations of %s are numbered without a gap and without a number twice', (_store, all) => {
  expect(all.map((it) => it.slice(0, 4))).toEqual(all.map((_, at) => String(at + 1).padStart(4, '0')))
})

it('a migration that has landed is never changed, renamed or taken away', () => {
  expect(Object.fromEntries(names.map((it) => [it, hashPostgres(it)]))).toEqual(landed.postgres)
  const inClickHouse = migrations.map((it) => it.name)
  expect(Object.fromEntries(inClickHouse.map((it) => [it, hashClickHouse(it)]))).toEqual(landed.clickhouse)
})
