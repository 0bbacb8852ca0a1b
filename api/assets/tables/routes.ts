import { z } from 'zod'
import { flag, integerBetween, object, optional } from '../../../http/body/fields.ts'
import { HttpError } from '../../../http/errors.ts'
import { type Route, route } from '../../../http/route.ts'
import type { ObjectStore } from '../../../store/objects/object-store.ts'
import { assetTopic } from '../assets.ts'
import { type AssetFinder, assetQuery } from '../find.ts'
import { createTables, type Row, type Table, toTableFormat, UnreadableTable } from './tables.ts'

const rowsMax = 5_000
const rowsDefault = 100
const charactersMax = 1_000_000
const charactersDefault = 1_000
/** Of all cells of an answer: rows beyond are left to the next request. */
const answerCharactersMax = 8_000_000

type Deps = { objects: ObjectStore; findAsset: AssetFinder }

/** Ranges of rows of tables that are stored as files. */
export function createTableRoutes({ objects, findAsset }: Deps): Route[] {
  const openTable = createTables(objects)

  return [
    route({
      method: 'GET',
      path: '/experiment/asset/rows',
      permission: 'reader',
      topic: assetTopic,
      summary:
        'Reads a range of rows of a table that was logged as CSV, or as JSON with a list of rows. The first read of a file ' +
        'looks where its rows begin; later ones read the bytes of their rows only. All values are text, as the file has them.',
      query: object({
        ...assetQuery.shape,
        from: optional(integerBetween(0, Number.MAX_SAFE_INTEGER)).describe('the first row, from 0'),
        count: optional(integerBetween(1, rowsMax)).describe(`default ${rowsDefault}`),
        header: optional(flag).describe(
          'whether the first row has the names of the columns; absent: it has when none of its cells is a number',
        ),
        cellCharactersMax: optional(integerBetween(1, charactersMax)).describe(
          `longer cells are cut, and listed in cut; default ${charactersDefault}`,
        ),
      }),
      answer: z.object({
        format: z.enum(['csv', 'json']),
        header: z.boolean().describe('whether the first row of the file was taken for names'),
        columns: z.array(z.string()),
        total: z.int().describe('all rows, without one of names'),
        from: z.int(),
        rows: z
          .array(z.array(z.string().nullable()))
          .describe('may be fewer than count where cells are long; a row may have fewer or more cells than columns'),
        cut: z
          .array(z.object({ row: z.int(), column: z.int(), characters: z.int().describe('of the whole cell') }))
          .describe('cells that are longer than cellCharactersMax; row counts from `from`'),
      }),
      shape: 'plain',
      async handle({ query, caller }) {
        const asset = await findAsset(caller, query)
        if (asset.objectKey === null) {
          throw new HttpError('badRequest', `assetId: the asset is remote; it is at ${asset.link}`)
        }
        const format = toTableFormat(asset)
        if (format === undefined) {
          throw new HttpError('badRequest', `assetId: "${asset.fileName}" is neither CSV nor JSON, by its name`)
        }
        const { from = 0, count = rowsDefault, cellCharactersMax = charactersDefault } = query
        try {
          const table = await openTable(asset, format)
          const { columns, header } = await findColumns(table, query.header)
          const skipped = header ? 1 : 0
          const found = await table.read(from + skipped, from + skipped + count)
          const { rows, cut } = cutCells(found, cellCharactersMax)
          const total = table.total - skipped
          return { format, header, columns: widen(columns, table, rows), total, from, rows, cut }
        } catch (error) {
          if (!(error instanceof UnreadableTable)) throw error
          throw new HttpError('badRequest', `assetId: "${asset.fileName}" ${error.message}`)
        }
      },
    }),
  ]
}

async function findColumns(table: Table, header: boolean | undefined) {
  if (table.names) return { columns: table.names, header: false }
  const [first = []] = table.total > 0 && header !== false ? await table.read(0, 1) : []
  const isHeader = header ?? isNames(first)
  return isHeader && table.total > 0
    ? { columns: first.map((it) => it ?? ''), header: true }
    : { columns: [], header: false }
}

/** A row of names has no number, but for the numbers from 0 that a data frame gives columns without names. */
function isNames(row: Row): boolean {
  const [first, ...rest] = row
  if (first === '' && rest.length > 0 && rest.every((it, at) => it === String(at))) return true
  return row.length > 0 && !row.some((it) => it === null || (it.trim() !== '' && Number.isFinite(Number(it))))
}

/** A name, empty if need be, for each cell of the widest row. */
function widen(columns: string[], { width }: Table, rows: Row[]): string[] {
  const cells = rows.reduce((most, it) => Math.max(most, it.length), Math.max(width, columns.length))
  return Array.from({ length: cells }, (_, at) => columns[at] ?? '')
}

function cutCells(given: Row[], most: number) {
  const cut: { row: number; column: number; characters: number }[] = []
  const rows: Row[] = []
  let characters = 0
  for (const [row, cells] of given.entries()) {
    if (characters > answerCharactersMax) break
    rows.push(
      cells.map((it, column) => {
        if (it === null) return null
        characters += Math.min(it.length, most)
        if (it.length <= most) return it
        cut.push({ row, column, characters: it.length })
        return it.slice(0, most).toWellFormed()
      }),
    )
  }
  return { rows, cut }
}
