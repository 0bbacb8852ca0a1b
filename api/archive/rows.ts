import { z } from 'zod'
import { indexedText, text } from '../../http/body/fields.ts'
import type { ArchiveRow } from '../../store/postgres/archive/read.ts'
import { type ArchiveTable, type Column, referredTables } from '../../store/postgres/archive/tables.ts'

/**
 * The rows of an archive come from anywhere, so they are checked like requests, by the same limits, and refer to nothing but
 * each other: a version, say, can only belong to an artifact of the same archive.
 */
const int64Text = z
  .string()
  .regex(/^-?\d{1,19}$/, 'expected a 64-bit integer as text')
  .refine((it) => BigInt.asIntN(64, BigInt(it)) === BigInt(it), 'expected a 64-bit integer as text')

export const timeText = z
  .string()
  .regex(/^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d{1,6})?[+-]\d\d(:\d\d){0,2}$/, 'expected a time')
  .refine((it) => Number.isFinite(Date.parse(it.slice(0, 10))), 'expected a time')

const number = (least: number, most: number) => z.int().min(least).max(most)
const numberMax = 1_000_000_000

function toField(column: Column): z.ZodType {
  switch (column.kind) {
    case 'text': {
      const field = text(column.charactersMax, column.charactersMin)
      return column.pattern ? field.regex(column.pattern, 'has characters that it may not have') : field
    }
    case 'indexed':
      return indexedText(column.charactersMax)
    case 'one of':
      return z.enum(column.values as [string, ...string[]])
    case 'texts':
      return z.array(text(500, 1)).max(1_000)
    case 'int64':
      return int64Text
    case 'float64':
      return z.string().regex(/^(-?\d+(\.\d+)?(e[-+]\d+)?|NaN|-?Infinity)$/, 'must be a float')
    case 'boolean':
      return z.boolean()
    case 'time':
      return timeText
    case 'experiment':
      return number(0, numberMax)
    case 'object':
      return number(1, numberMax)
    case 'user':
      return text(1_000, 1)
    case 'row':
      return text(100, 1)
  }
}

function toSchema({ columns }: ArchiveTable) {
  const fields = columns.map((it) => [it.name, it.isNullable ? toField(it).nullable().default(null) : toField(it)])
  return z.strictObject(Object.fromEntries(fields) as Record<string, z.ZodType>)
}

/** What the rows of all tables refer to, and say of each other. */
export function createRowCheck({ fileBytesMax, ofTypeMax }: { fileBytesMax: number; ofTypeMax(type: string): number }) {
  const schemas = new Map<string, z.ZodType<ArchiveRow>>()
  const ids = new Map<string, Set<string>>(referredTables.map((it) => [it, new Set()]))
  const objects = new Map<number, { bytes: number; sha256: string }>()
  const ofType = new Map<string, number>()
  const userNames = new Set<string>()
  let experiments = 0

  function checkRow(table: ArchiveTable, value: unknown): ArchiveRow {
    const schema = schemas.get(table.name) ?? (toSchema(table) as z.ZodType<ArchiveRow>)
    schemas.set(table.name, schema)
    const read = schema.safeParse(value)
    if (!read.success) {
      const [issue] = read.error.issues
      throw new WrongArchive(`${issue?.path.join('.') || 'the row'}: ${issue?.message}`)
    }
    const row = read.data
    if (table.name === 'experiments' && row.id !== experiments++) throw new WrongArchive('id: must count the rows')
    for (const column of table.columns) checkReference(column, row)
    ids.get(table.name)?.add(row.id as string)
    if ('object_key' in row) checkFile(table, row)
    return row
  }

  function checkReference(column: Column, row: ArchiveRow) {
    const value = row[column.name]
    if (value === null) return
    if (column.kind === 'user') userNames.add(value as string)
    if (column.kind === 'experiment' && Number(value) >= experiments) {
      throw new WrongArchive(`${column.name}: there is no experiment ${value}`)
    }
    if (column.kind === 'row' && !ids.get(column.table)?.has(value as string)) {
      throw new WrongArchive(`${column.name}: the archive has no such row of ${column.table}`)
    }
    if (
      column.kind === 'text' &&
      column.isJson &&
      (column.isJson === true || column.isJson.includes(String(row.kind)))
    ) {
      if (!isJson(value as string)) throw new WrongArchive(`${column.name}: must be JSON`)
    }
  }

  function checkFile({ name }: ArchiveTable, row: ArchiveRow) {
    const [number, sha256, bytes] = [row.object_key as number | null, row.sha256 as string | null, Number(row.size)]
    if ((number === null) !== (sha256 === null) || (number === null) === (row.link === null)) {
      throw new WrongArchive('object_key: must come with sha256, and instead of link')
    }
    if (number !== null && sha256 !== null) {
      if (bytes < 0 || bytes > fileBytesMax) throw new WrongArchive(`size: must be ${fileBytesMax} or fewer`)
      const known = objects.get(number)
      if (known && (known.bytes !== bytes || known.sha256 !== sha256)) {
        throw new WrongArchive(`object_key: object ${number} has another size or checksum elsewhere`)
      }
      objects.set(number, { bytes, sha256 })
    }
    if (name !== 'assets') return
    const key = `${row.experiment_id} ${row.type}`
    const count = (ofType.get(key) ?? 0) + 1
    ofType.set(key, count)
    if (count > ofTypeMax(row.type as string))
      throw new WrongArchive(`type: an experiment has too many assets of ${row.type}`)
  }

  return {
    /** @throws WrongArchive */
    checkRow,
    objects,
    userNames,
    experiments: () => experiments,
  }
}

export type RowCheck = ReturnType<typeof createRowCheck>

/** The archive is not one that a server has written. */
export class WrongArchive extends Error {}

function isJson(text: string): boolean {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}
