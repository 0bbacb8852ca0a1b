import { createMarks, type Marks } from './marks.ts'

/**
 * CSV by RFC 4180: a cell in quotes may hold line ends, separators and doubled quotes. A quote within a cell that does not
 * begin with one is a character like others. Lines end in LF or CRLF; empty ones are no rows.
 */

const quote = 0x22
const lineFeed = 0x0a
const carriageReturn = 0x0d

/** What a byte is a part of. */
const begins = 0
const plain = 1
const quoted = 2
const afterQuote = 3

export type Separator = ',' | ';' | '\t'

/** Finds where rows begin, in chunks of any size. The offsets are those of the file. */
export function createCsvScanner(separator: Separator, from: number) {
  const separates = separator.charCodeAt(0)
  const marks = createMarks()
  let state = begins
  let rowStart = from
  let offset = from
  let cells = 1
  let cellsMost = 0
  let isEmpty = true

  function endRow(next: number) {
    if (!isEmpty) {
      marks.begin(rowStart)
      if (cells > cellsMost) cellsMost = cells
    }
    rowStart = next
    cells = 1
    isEmpty = true
    state = begins
  }

  return {
    push(chunk: Uint8Array) {
      for (let at = 0; at < chunk.length; at++) {
        const byte = chunk[at] as number
        if (state === quoted) {
          if (byte === quote) state = afterQuote
          continue
        }
        if (byte === lineFeed) {
          endRow(offset + at + 1)
          continue
        }
        if (byte === separates) {
          cells += 1
          isEmpty = false
          state = begins
          continue
        }
        if (byte === quote && (state === begins || state === afterQuote)) {
          state = quoted
          isEmpty = false
          continue
        }
        if (byte !== carriageReturn) isEmpty = false
        state = plain
      }
      offset += chunk.length
    },

    end(): { marks: Marks; cellsMost: number } {
      endRow(offset)
      return { marks: marks.end(offset), cellsMost }
    },
  }
}

/** The rows of a text that begins with a row, by the same rules. */
export function parseCsv(text: string, separator: Separator): string[][] {
  const rows: string[][] = []
  let row: string[] = []
  let cell = ''
  let state = begins
  let isEmpty = true
  /** Where the part of the cell begins that is not in `cell` yet. */
  let from = 0

  function endCell(end: number) {
    row.push(cell + text.slice(from, end))
    cell = ''
    from = end + 1
    state = begins
  }

  function endRow(end: number) {
    const hasReturn = state !== begins && end > from && text[end - 1] === '\r'
    endCell(hasReturn ? end - 1 : end)
    from = end + 1
    if (!isEmpty) rows.push(row)
    row = []
    isEmpty = true
  }

  for (let at = 0; at < text.length; at++) {
    const it = text[at]
    if (state === quoted) {
      if (it !== '"') continue
      cell += text.slice(from, at)
      from = at + 1
      state = afterQuote
      continue
    }
    if (it === '\n') {
      endRow(at)
      continue
    }
    if (it === separator) {
      isEmpty = false
      endCell(at)
      continue
    }
    if (it === '"' && (state === begins || state === afterQuote)) {
      // The second of a doubled quote is one character of the cell.
      from = state === begins ? at + 1 : at
      state = quoted
      isEmpty = false
      continue
    }
    if (it !== '\r') isEmpty = false
    state = plain
  }
  endRow(text.length)
  return rows
}
