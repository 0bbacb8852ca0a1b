import { isUtf8 } from 'node:buffer'

/**
 * Reads CSV (RFC 4180, also with LF alone, and with a byte order mark) as it arrives. A line that cannot be read is told with
 * its number, and reading goes on with the line after it: a quote that is never closed costs one line, not the rest of the
 * file, which is what readers that know nothing of lines make of it.
 */
export type CsvRecord = {
  /** Where it begins in the file, from 1. */
  line: number
  /** What stands in it, or what is wrong with it. */
  fields: string[] | { fault: string }
}

type Limits = {
  lineBytesMax: number
  /** How far a value in quotes may go over the ends of lines. */
  linesPerRecordMax: number
}

export const csvLimits: Limits = { lineBytesMax: 4 * 1024 * 1024, linesPerRecordMax: 1_000 }

const lineFeed = 0x0a
const byteOrderMark = '\ufeff'

/** The records of a file, those of each piece that arrives together. Lines with nothing in them are passed over. */
export async function* readCsv(
  content: AsyncIterable<Buffer>,
  { lineBytesMax, linesPerRecordMax }: Limits = csvLimits,
): AsyncGenerator<CsvRecord[]> {
  const records = createRecords(lineBytesMax, linesPerRecordMax)
  let rest: Buffer[] = []
  let restBytes = 0
  /** True in the middle of a line that is too long, which is not kept. */
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
        records.addFault(`the line has more than ${lineBytesMax} bytes`)
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

/** Takes whole lines, and makes records of them. */
function createRecords(lineBytesMax: number, linesPerRecordMax: number) {
  let records: CsvRecord[] = []
  let linesSeen = 0
  /** Lines of a record whose last value is still open, the first of them at `openFrom`. */
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

  /** A quote within a value is written twice: only a line with an odd number of them can close what is open. */
  function addToOpen(raw: string, line: number) {
    open.push(raw)
    openCharacters += raw.length + 1
    if (hasOddQuotes(raw)) {
      const fields = splitQuoted(withoutReturn(open.join('\n')))
      if (Array.isArray(fields)) {
        open = []
        return add(openFrom, fields)
      }
      if (fields !== 'open') return giveUp(fields.fault, line)
    }
    if (open.length > linesPerRecordMax || openCharacters > lineBytesMax) giveUp(neverClosed, line)
  }

  /** The first line is what is wrong; those after it are read as if it were not there. */
  function giveUp(fault: string, lastLine: number) {
    const [, ...others] = open
    const line = openFrom
    open = []
    add(line, { fault })
    others.forEach((text, at) => {
      addLine(text, lastLine - others.length + 1 + at)
    })
  }

  return {
    /** @param bytes one or more lines, the last of them whole as well */
    addLines(bytes: Buffer) {
      if (!isUtf8(bytes)) {
        for (let from = 0; from < bytes.length; ) {
          const end = bytes.indexOf(lineFeed, from) + 1
          const line = bytes.subarray(from, end)
          if (isUtf8(line)) this.addLines(line)
          else this.addFault('the line is not valid UTF-8')
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

    /** A line that is not even text. */
    addFault(fault: string) {
      while (open.length > 0) giveUp(neverClosed, linesSeen)
      add(++linesSeen, { fault })
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

/** The values of a record with quotes in it; `open` when its last value goes on in the next line. */
function splitQuoted(text: string): string[] | 'open' | { fault: string } {
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
        return { fault: `after a value in quotes a comma is expected (value ${fields.length + 1} of the line)` }
      }
      fields.push(value)
    } else {
      const comma = text.indexOf(',', at)
      const end = comma < 0 ? text.length : comma
      const value = text.slice(at, end)
      if (value.includes('"')) {
        return { fault: `a quote stands within a value without quotes (value ${fields.length + 1} of the line)` }
      }
      fields.push(value)
      at = end
    }
    if (at >= text.length) return fields
    at++
  }
}
