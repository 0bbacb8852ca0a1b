import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { expect, it } from 'vitest'
import { migrations } from '../../../store/clickhouse/migrations/migrate.ts'
import { migrationNames } from '../../../store/postgres/migrate.ts'

/**
 * The hash of each migration that has landed, without its comments. A new one adds its own; none is ever changed: databases
 * have it applied.
 */
const landed: Record<string, string> = JSON.parse(
  readFileSync(new URL('landed-migrations.json', import.meta.url), 'utf8'),
)

const names = migrationNames()

function toHash(name: string): string {
  const text = readFileSync(new URL(`../../../store/postgres/migrations/${name}.sql`, import.meta.url), 'utf8')
  const sql = text
    .replace(/^\s*--(?! (Up|Down) Migration).*$/gm, '')
    .replace(/\s+/g, ' ')
    .trim()
  return createHash('sha256').update(sql).digest('hex').slice(0, 16)
}

it.each([
  ['Postgres', names],
  ['ClickHouse', migrations.map((it) => it.name)],
])('migrations of %s are numbered without a gap and without a number twice', (_store, all) => {
  expect(all.map((it) => it.slice(0, 4))).toEqual(all.map((_, at) => String(at + 1).padStart(4, '0')))
})

it('a migration that has landed is never changed, renamed or taken away', () => {
  expect(Object.fromEntries(names.map((it) => [it, toHash(it)]))).toEqual(landed)
})
