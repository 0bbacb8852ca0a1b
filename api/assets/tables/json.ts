import { BareFloat, type ExactJson, parseExactJson, writeExactJson } from '../../../http/body/exact-json.ts'
import { createMarks, type Marks } from './marks.ts'

/**
 * Tables in JSON: a list of rows, or an object whose `data` is one, with `columns`, as pandas writes it (`orient="split"`). A row is
 * a list of cells, or an object with a cell for each column.
 */

const braces = { open: 0x7b, close: 0x7d, openList: 0x5b, closeList: 0x5d }
const quote = 0x22
const backslash = 0x5c
const comma = 0x2c
const colon = 0x3a

/** Names beyond these are an error: a table of as many columns is none that somebody reads. */
const columnsMax = 10_000
const columnsBytesMax = 4 * 1024 * 1024

export class NoTable extends Error {}

type Found = {
  marks: Marks
  /** JSON text of the value of `columns`, if there is one. */
  columns: string | undefined
  /** The names in rows that are objects, in the order of their first use, as JSON text without quotes. */
  names: string[]
}

/** Finds where rows begin, in chunks of any size. */
export function createJsonScanner() {
  const marks = createMarks()
  const names = new Set<string>()
  /** The same as bytes: rows have the same names in the same order as a rule, and comparing is faster than decoding. */
  const bytesOfNames: Buffer[] = []
  let expected = 0
  let offset = 0
  let depth = 0
  let isInString = false
  let isEscaped = false
  /** The depth within the list of rows; undefined outside of it. */
  let rowsDepth: number | undefined
  let rowsEnd: number | undefined
  let isRowDue = false
  let isNameDue = false
  let isObjectRow = false
  /** Where the string began that is being read as a name; of an earlier chunk its bytes are in `kept`. */
  let nameStart = -1
  let kept = ''
  let key = ''
  /** What follows a name of the outermost object. */
  let isValueDue = false
  let columns: Buffer[] | undefined
  let columnsBytes = 0
  let columnsText: string | undefined
  let columnsStart = -1

  function endName(chunk: Buffer, at: number) {
    const start = nameStart
    nameStart = -1
    isNameDue = false
    if (depth !== 1 && kept === '' && isExpected(chunk, start, at)) return
    const name = kept + chunk.toString('latin1', start, at)
    kept = ''
    if (rowsDepth === undefined || depth === 1) key = name
    else if (!names.has(name)) {
      if (names.size === columnsMax) throw new NoTable(`has more than ${columnsMax} columns`)
      names.add(name)
      bytesOfNames.push(Buffer.from(name, 'latin1'))
      expected = 0
    }
  }

  function isExpected(chunk: Buffer, start: number, end: number): boolean {
    const bytes = bytesOfNames[expected]
    if (bytes === undefined || bytes.length !== end - start) return false
    for (let at = 0; at < bytes.length; at++) if (bytes[at] !== chunk[start + at]) return false
    expected = expected + 1 === bytesOfNames.length ? 0 : expected + 1
    return true
  }

  function endColumns(chunk: Buffer, at: number) {
    columns?.push(chunk.subarray(columnsStart, at))
    columnsText = Buffer.concat(columns ?? []).toString()
    columns = undefined
  }

  function begin(at: number, byte: number) {
    if (depth === 1 && rowsDepth !== 1 && isValueDue) {
      isValueDue = false
      if (key === 'columns' && columns === undefined && columnsText === undefined) {
        columns = []
        columnsStart = at
      }
      if (key === 'data' && byte === braces.openList && rowsDepth === undefined) {
        rowsDepth = 2
        isRowDue = true
      }
    }
    if (depth === 0) {
      if (byte === braces.openList) {
        rowsDepth = 1
        isRowDue = true
      } else isNameDue = true
    }
    depth += 1
    const isRow = rowsDepth !== undefined && rowsEnd === undefined && depth === rowsDepth + 1 && isObjectRow
    if (isRow && byte === braces.open) isNameDue = true
  }

  return {
    push(chunk: Buffer) {
      if (columns) columnsStart = 0
      if (nameStart >= 0) nameStart = 0
      const isWithin = () => rowsDepth !== undefined && rowsEnd === undefined
      for (let at = 0; at < chunk.length; at++) {
        const byte = chunk[at] as number
        if (isInString) {
          if (isEscaped) isEscaped = false
          else if (byte === backslash) isEscaped = true
          else if (byte === quote) {
            isInString = false
            if (nameStart >= 0) endName(chunk, at)
          }
          continue
        }
        if (byte === 0x20 || (byte >= 0x09 && byte <= 0x0d)) continue
        if (isRowDue && isWithin() && depth === rowsDepth && byte !== braces.closeList) {
          isRowDue = false
          isObjectRow = byte === braces.open
          marks.begin(offset + at)
        }
        if (byte === quote) {
          isInString = true
          if (isNameDue) nameStart = at + 1
          else isValueDue = false
          continue
        }
        if (byte === colon) {
          if (depth === 1 && rowsDepth !== 1) isValueDue = true
          continue
        }
        if (byte === comma) {
          if (columns && depth === 1) endColumns(chunk, at)
          if (isWithin() && depth === rowsDepth) isRowDue = true
          else if (isWithin() && isObjectRow && depth === (rowsDepth as number) + 1) isNameDue = true
          else if (depth === 1 && rowsDepth !== 1) isNameDue = true
          continue
        }
        if (byte === braces.open || byte === braces.openList) {
          begin(at, byte)
          continue
        }
        if (byte === braces.close || byte === braces.closeList) {
          if (columns && depth === 1) endColumns(chunk, at)
          depth -= 1
          isNameDue = false
          if (isWithin() && depth === (rowsDepth as number) - 1) rowsEnd = offset + at
          continue
        }
        isValueDue = false
      }
      if (nameStart >= 0) kept += chunk.toString('latin1', nameStart)
      if (columns) {
        columns.push(Buffer.from(chunk.subarray(columnsStart)))
        columnsBytes += chunk.length
        if (columnsBytes > columnsBytesMax) throw new NoTable('has a list of columns that is too long')
      }
      offset += chunk.length
    },

    end(): Found {
      if (rowsEnd === undefined) throw new NoTable('is no list of rows, nor an object with a list "data"')
      return {
        marks: marks.end(rowsEnd),
        columns: columnsText,
        names: [...names],
      }
    },
  }
}

/** The names of columns, from what the scanner found. */
export function toColumns({ columns, names }: Pick<Found, 'columns' | 'names'>): string[] {
  if (columns !== undefined) {
    const listed = parse(columns)
    if (Array.isArray(listed)) return listed.slice(0, columnsMax).map((it) => toCell(it) ?? '')
  }
  return names.map((it) => String(parse(`"${Buffer.from(it, 'latin1').toString()}"`)))
}

/** The rows of a text of rows with commas between them; the cells of rows that are objects by these names. */
export function parseJsonRows(text: string, columns: string[]): (string | null)[][] {
  const rows = parse(`[${text.replace(/[\s,]+$/, '')}]`) as ExactJson[]
  return rows.map((row) => {
    if (Array.isArray(row)) return row.map(toCell)
    if (typeof row !== 'object' || row === null || row instanceof BareFloat) return [toCell(row)]
    return columns.map((name) => (Object.hasOwn(row, name) ? toCell(row[name] as ExactJson) : null))
  })
}

function parse(text: string): ExactJson {
  try {
    return parseExactJson(text)
  } catch {
    throw new NoTable('is no JSON')
  }
}

function toCell(value: ExactJson): string | null {
  if (value === null) return null
  if (typeof value === 'string') return value
  if (value instanceof BareFloat) return String(value.float)
  return writeExactJson(value)
}
