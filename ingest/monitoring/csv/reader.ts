import { isUtf8 } from 'node:buffer'

/**
 * Reads CSV (RFC 4180, also with LF alone, and with a byte order mark) as it arrives. A line that cannot be read is reported
 * by its number, and reading continues with the next line. So a quote that is never closed costs one line; other readers
 * lose the rest of the file.
 */
export type CsvRecord = {
  /** The number of its first line, from 1. */
  line: number
  /** Its values, or why it cannot be read. */
  fields: string[] | { error: string }
}

type Limits = {
  lineBytesMax: number
  /** How many lines a quoted value may span. */
  linesPerRecordMax: number
}

export const csvLimits: Limits = { lineBytesMax: 4 * 1024 * 1024, linesPerRecordMax: 1_000 }

const lineFeed = 0x0a
const byteOrderMark = '\ufeff'

/** Yields the records of each chunk together. Empty lines are skipped. */
export async function* readCsv(
  content: AsyncIterable<Buffer>,
  { lineBytesMax, linesPerRecordMax }: Limits = csvLimits,
): AsyncGenerator<CsvRecord[]> {
  const records = createRecords(lineBytesMax, linesPerRecordMax)
  let rest: Buffer[] = []
  let restBytes = 0
  /** True within a line that is too long; its bytes are dropped. */
  let isSkipping = false
  for await (const chunk of content) {
    let from = 0
    const end = chunk.lastIndexOf(lineFeed) + 1
    if (isSkipping && end > 0) {
      from = chunk.indexOf(lineFeed) + 1
      isSkipping = false
    }
    if (end > from || (end > 0 && restBytes > 0)) {
      records.addLines(Buffer.concat([...rest, chunk.subarray(from, end)]))
      rest = []
      restBytes = 0
    }
    if (!isSkipping && end < chunk.length) {
      rest.push(chunk.subarray(end))
      restBytes += chunk.length - end
      if (restBytes > lineBytesMax) {
        records.addError(`the line has more than ${lineBytesMax} bytes`)
        rest = []
        restBytes = 0
        isSkipping = true
      }
    }
    const read = records.take()
    if (read.length > 0) yield read
  }
  if (restBytes > 0) records.addLines(Buffer.concat([...rest, Buffer.of(lineFeed)]))
  records.finish()
  const read = records.take()
  if (read.length > 0) yield read
}

/** Turns complete lines into records. */
function createRecords(lineBytesMax: number, linesPerRecordMax: number) {
  let records: CsvRecord[] = []
  let linesSeen = 0
  /** The lines of a record whose last quoted value is not closed yet; the first has the number `openFrom`. */
  let open: string[] = []
  let openCharacters = 0
  let openFrom = 0

  function add(line: number, fields: CsvRecord['fields']) {
    records.push({ line, fields })
  }

  function addLine(raw: string, line: number) {
    if (open.length > 0) return addToOpen(raw, line)
    const text = withoutReturn(raw)
    if (text === '') return
    if (!text.includes('"')) return add(line, text.split(','))
    const fields = splitQuoted(text)
    if (fields !== 'open') return add(line, fields)
    open = [raw]
    openCharacters = raw.length
    openFrom = line
  }

  /** A quote within a value is doubled: only a line with an odd number of quotes can close the value. */
  function addToOpen(raw: string, line: number) {
    open.push(raw)
    openCharacters += raw.length + 1
    if (hasOddQuotes(raw)) {
      const fields = splitQuoted(withoutReturn(open.join('\n')))
      if (Array.isArray(fields)) {
        open = []
        return add(openFrom, fields)
      }
      if (fields !== 'open') return giveUp(fields.error, line)
    }
    if (open.length > linesPerRecordMax || openCharacters > lineBytesMax) giveUp(neverClosed, line)
  }

  /** Reports the first open line as wrong and reads the others again without it. */
  function giveUp(error: string, lastLine: number) {
    const [, ...others] = open
    const line = openFrom
    open = []
    add(line, { error })
    others.forEach((text, at) => {
      addLine(text, lastLine - others.length + 1 + at)
    })
  }

  return {
    /** @param bytes one or more complete lines */
    addLines(bytes: Buffer) {
      if (!isUtf8(bytes)) {
        for (let from = 0; from < bytes.length; ) {
          const end = bytes.indexOf(lineFeed, from) + 1
          const line = bytes.subarray(from, end)
          if (isUtf8(line)) this.addLines(line)
          else this.addError('the line is not valid UTF-8')
          from = end
        }
        return
      }
      let text = bytes.toString('utf8')
      if (linesSeen === 0 && text.startsWith(byteOrderMark)) text = text.slice(1)
      const lines = text.split('\n')
      lines.pop()
      for (const it of lines) addLine(it, ++linesSeen)
    },

    /** Reports a line that is not text or is too long. */
    addError(error: string) {
      while (open.length > 0) giveUp(neverClosed, linesSeen)
      add(++linesSeen, { error })
    },

    finish() {
      while (open.length > 0) giveUp(neverClosed, linesSeen)
    },

    take(): CsvRecord[] {
      const taken = records
      records = []
      return taken
    },
  }
}

const withoutReturn = (text: string) => (text.endsWith('\r') ? text.slice(0, -1) : text)

function hasOddQuotes(text: string): boolean {
  let isOdd = false
  for (let at = text.indexOf('"'); at >= 0; at = text.indexOf('"', at + 1)) isOdd = !isOdd
  return isOdd
}

const neverClosed = 'a value in quotes is never closed'

/** Splits a record with quotes; `open` when its last value continues on the next line. */
function splitQuoted(text: string): string[] | 'open' | { error: string } {
  const fields: string[] = []
  let at = 0
  for (;;) {
    if (text[at] === '"') {
      let value = ''
      let from = at + 1
      for (;;) {
        const end = text.indexOf('"', from)
        if (end < 0) return 'open'
        value += text.slice(from, end)
        if (text[end + 1] !== '"') {
          at = end + 1
          break
        }
        value += '"'
        from = end + 2
      }
      if (at < text.length && text[at] !== ',') {
        return { error: `after a value in quotes a comma is expected (value ${fields.length + 1} of the line)` }
      }
      fields.push(value)
    } else {
      const comma = text.indexOf(',', at)
      const end = comma < 0 ? text.length : comma
      const value = text.slice(at, end)
      if (value.includes('"')) {
        return { error: `a quote stands within a value without quotes (value ${fields.length + 1} of the line)` }
      }
      fields.push(value)
      at = end
    }
    if (at >= text.length) return fields
    at++
  }
}
