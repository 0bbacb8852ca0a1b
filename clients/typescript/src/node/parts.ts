/** Records of a CSV file, under its header. */
export type Part = {
  content: Buffer
  headerLines: number
  /** The number of its first line in the file, from 1. */
  firstLine: number
}

/** A part is held in memory while it is sent. Other sizes would make other ids of lines that bring none. */
const partBytesDefault = 2 * 1024 * 1024
/** A quote that is never closed is given up by the service after so much, and so it is here. */
const recordLinesMax = 1_000
const recordBytesMax = 4 * 1024 * 1024

const lineFeed = 0x0a
const quote = 0x22

/** The number in the file of a line that is counted in a part. */
export function toFileLine({ headerLines, firstLine }: Part, line: number): number {
  return line <= headerLines ? line : firstLine + line - headerLines - 1
}

/** Reads a file in bounded memory. A file without lines under its header is one part, for the header to be checked. */
export async function* readParts(chunks: AsyncIterable<Buffer>, partBytes = partBytesDefault): AsyncGenerator<Part> {
  let header: Buffer[] | undefined
  let head = Buffer.alloc(0)
  let records: Buffer[] = []
  let size = 0
  let firstLine = 1
  let line = 1
  for await (const record of readRecords(readLines(chunks))) {
    line += record.length
    if (!header) {
      header = record
      const bytes = Buffer.concat(record)
      head = bytes.at(-1) === lineFeed ? bytes : Buffer.concat([bytes, Buffer.of(lineFeed)])
      firstLine = line
      continue
    }
    for (const it of record) {
      records.push(it)
      size += it.length
    }
    if (size < partBytes) continue
    yield { content: Buffer.concat([head, ...records]), headerLines: header.length, firstLine }
    records = []
    size = 0
    firstLine = line
  }
  const headerLines = header?.length ?? 0
  if (records.length > 0 || firstLine === headerLines + 1) {
    yield { content: Buffer.concat([head, ...records]), headerLines, firstLine }
  }
}

/** Lines that belong together, for a value in quotes may go over the ends of lines. */
async function* readRecords(lines: AsyncIterable<Buffer>): AsyncGenerator<Buffer[]> {
  let record: Buffer[] = []
  let isOpen = false
  let size = 0
  for await (const line of lines) {
    record.push(line)
    size += line.length
    if (hasOddQuotes(line)) isOpen = !isOpen
    if (isOpen && record.length <= recordLinesMax && size <= recordBytesMax) continue
    yield record
    record = []
    isOpen = false
    size = 0
  }
  if (record.length > 0) yield record
}

/** Lines with their ends; of a line that is too long, pieces: the service says what is wrong with each. */
async function* readLines(chunks: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  let rest: Buffer[] = []
  let restBytes = 0
  for await (const chunk of chunks) {
    let from = 0
    for (let end = chunk.indexOf(lineFeed); end >= 0; end = chunk.indexOf(lineFeed, from)) {
      const piece = chunk.subarray(from, end + 1)
      yield restBytes === 0 ? piece : Buffer.concat([...rest, piece])
      rest = []
      restBytes = 0
      from = end + 1
    }
    if (from < chunk.length) {
      rest.push(chunk.subarray(from))
      restBytes += chunk.length - from
    }
    if (restBytes > recordBytesMax) {
      yield Buffer.concat(rest)
      rest = []
      restBytes = 0
    }
  }
  if (restBytes > 0) yield Buffer.concat(rest)
}

function hasOddQuotes(line: Buffer): boolean {
  let isOdd = false
  for (let at = line.indexOf(quote); at >= 0; at = line.indexOf(quote, at + 1)) isOdd = !isOdd
  return isOdd
}
