import { parse } from 'csv-parse/sync'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { toMissingMarkers, toScalar } from '../../../../ingest/monitoring/csv/lines.ts'
import { type CsvRecord, csvLimits, readCsv } from '../../../../ingest/monitoring/csv/reader.ts'

/** Reads a text that arrives in pieces of so many bytes. */
async function read(text: string | Buffer, bytesAtOnce = 1_000_000, limits = csvLimits): Promise<CsvRecord[]> {
  const bytes = Buffer.from(text)
  async function* arrive() {
    for (let at = 0; at < bytes.length; at += bytesAtOnce) yield bytes.subarray(at, at + bytesAtOnce)
  }
  return (await Array.fromAsync(readCsv(arrive(), limits))).flat()
}

const fieldsOf = (records: CsvRecord[]) => records.map((it) => it.fields)

describe('a file that is right', () => {
  it('has quotes, line breaks in quotes, a byte order mark, CRLF, empty lines', async () => {
    const text = '\ufeffa,b\r\n"x, ""y""","1\r\n2"\r\n\r\n,"é"\n"",'
    for (const bytesAtOnce of [1, 2, 3, 7, 1_000]) {
      expect(await read(text, bytesAtOnce)).toEqual([
        { line: 1, fields: ['a', 'b'] },
        { line: 2, fields: ['x, "y"', '1\r\n2'] },
        { line: 5, fields: ['', 'é'] },
        { line: 6, fields: ['', ''] },
      ])
    }
  })

  it('the output of a CSV writer is read like another reader reads it', async () => {
    const value = fc.string({ unit: fc.constantFrom('a', 'é', '"', ',', '\n', '\r\n', ' ', '😀', ''), maxLength: 6 })
    const rows = fc.array(fc.array(value, { minLength: 2, maxLength: 4 }), { minLength: 1, maxLength: 8 })
    const lineEnd = fc.constantFrom('\n', '\r\n')
    await fc.assert(
      fc.asyncProperty(rows, lineEnd, fc.integer({ min: 1, max: 40 }), async (rows, end, bytesAtOnce) => {
        const quote = (it: string) => (/[",\r\n]/.test(it) ? `"${it.replaceAll('"', '""')}"` : it)
        const text = rows.map((row) => row.map(quote).join(',')).join(end)
        const expected = parse(text, { relax_column_count: true, skip_empty_lines: true, record_delimiter: end })
        expect(fieldsOf(await read(text, bytesAtOnce))).toEqual(expected)
        expect(expected).toEqual(rows)
      }),
      { numRuns: 300 },
    )
  })
})

describe('a line that is wrong is told by its number, and costs no other', () => {
  const around = (line: string | Buffer) =>
    Buffer.concat([Buffer.from('a,b\n1,2\n'), Buffer.from(line), Buffer.from('\n3,4\n5,"6"\n')])
  it.each<[string, string | Buffer, RegExp]>([
    ['a value after quotes', '"un"closed,2', /after a value in quotes a comma is expected \(value 1/],
    ['a quote within a value', 'x,st"ray', /a quote stands within .* \(value 2/],
    ['bytes that are no UTF-8', Buffer.of(0x61, 0xff, 0x2c, 0x62), /not valid UTF-8/],
  ])('%s', async (_what, line, fault) => {
    for (const bytesAtOnce of [1, 5, 1_000]) {
      expect(await read(around(line), bytesAtOnce)).toEqual([
        { line: 1, fields: ['a', 'b'] },
        { line: 2, fields: ['1', '2'] },
        { line: 3, fields: { error: expect.stringMatching(fault) } },
        { line: 4, fields: ['3', '4'] },
        { line: 5, fields: ['5', '6'] },
      ])
    }
  })

  it('a quote that is never closed, though others follow', async () => {
    const lines = Array.from({ length: 40 }, (_, at) => `${at},"b${at}"`)
    const text = `1,"open\n${lines.join('\n')}\n`
    const records = await read(text)
    expect(records[0]).toEqual({ line: 1, fields: { error: expect.any(String) } })
    expect(records.slice(1).map((it) => it.line)).toEqual(lines.map((_, at) => at + 2))
    expect(fieldsOf(records).slice(1)).toEqual(lines.map((_, at) => [String(at), `b${at}`]))
  })

  it('a quote that is never closed, to the end of the file', async () => {
    const records = await read('1,"open\n2,b\n3,c', 4)
    expect(records).toEqual([
      { line: 1, fields: { error: 'a value in quotes is never closed' } },
      { line: 2, fields: ['2', 'b'] },
      { line: 3, fields: ['3', 'c'] },
    ])
  })

  it('a quoted value over too many lines', async () => {
    const rest = Array.from({ length: 20 }, (_, at) => `${at},x`)
    const records = await read(`1,"open\n${rest.join('\n')}\n`, 10, { ...csvLimits, linesPerRecordMax: 5 })
    expect(records.map((it) => it.line)).toEqual(Array.from({ length: 21 }, (_, at) => at + 1))
    expect(records.filter((it) => !Array.isArray(it.fields))).toHaveLength(1)
  })

  it('a line that is too long is not kept in memory', async () => {
    const limits = { ...csvLimits, lineBytesMax: 100 }
    const text = `a,b\n${'x'.repeat(5_000)}\n3,4\n${'y'.repeat(5_000)}`
    for (const bytesAtOnce of [1, 64, 99]) {
      expect(await read(text, bytesAtOnce, limits)).toEqual([
        { line: 1, fields: ['a', 'b'] },
        { line: 2, fields: { error: 'the line has more than 100 bytes' } },
        { line: 3, fields: ['3', '4'] },
        { line: 4, fields: { error: 'the line has more than 100 bytes' } },
      ])
    }
  })

  it('with any bytes, each line is a record, a part of one, or a reported error', async () => {
    const piece = fc.constantFrom('"', '""', ',', '\n', '\r\n', 'a', 'é', '\ufeff')
    await fc.assert(
      fc.asyncProperty(fc.array(piece, { maxLength: 60 }), fc.integer({ min: 1, max: 9 }), async (pieces, size) => {
        const text = pieces.join('')
        const records = await read(text, size)
        expect(records).toEqual(await read(text))
        const lines = records.map((it) => it.line)
        expect(lines).toEqual([...new Set(lines)].toSorted((a, b) => a - b))
      }),
      { numRuns: 500 },
    )
  })
})

describe('values', () => {
  it.each<[string, unknown]>([
    ['7', 7],
    ['-7', -7],
    ['0', 0],
    ['9007199254740993', 9007199254740993n],
    ['007', '007'],
    ['00.5', '00.5'],
    ['1.5', 1.5],
    ['1.0', { float: 1 }],
    ['1e3', { float: 1000 }],
    ['.5', 0.5],
    ['-0', { float: -0 }],
    ['1e999', '1e999'],
    ['inf', Number.POSITIVE_INFINITY],
    ['-Infinity', Number.NEGATIVE_INFINITY],
    ['nan', Number.NaN],
    ['True', true],
    ['false', false],
    ['tRUE', 'tRUE'],
    ['1,5', '1,5'],
    ['1_000', '1_000'],
    ['0x10', '0x10'],
    [' 1', ' 1'],
    ['constructor', 'constructor'],
    ['information', 'information'],
    ['2026-01-01', '2026-01-01'],
    ['', ''],
  ])('%j is %s', (text, value) => {
    expect(toScalar(text)).toEqual(value)
  })

  it('every number that JavaScript writes is read back the same', () => {
    fc.assert(
      fc.property(fc.double(), (number) => {
        const value = toScalar(Object.is(number, -0) ? '-0' : String(number))
        const read = typeof value === 'object' ? value?.float : typeof value === 'bigint' ? Number(value) : value
        expect(read).toBe(number)
      }),
    )
  })
})

describe('missing values', () => {
  const known = ['', 'None', 'null', 'NULL', 'N/A', 'NA', 'NaN', 'n/a', 'nan']
  it('are known by their strings', () => {
    expect([...toMissingMarkers(undefined, true)]).toEqual(known)
    expect([...toMissingMarkers('-,unknown', true)]).toEqual([...known, '-', 'unknown'])
    expect([...toMissingMarkers('-,unknown', false)]).toEqual(['-', 'unknown'])
    expect([...toMissingMarkers(undefined, false)]).toEqual([])
  })
})
