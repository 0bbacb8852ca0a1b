import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createCsvScanner, parseCsv } from '../../../api/assets/tables/csv.ts'
import { createAssetClient } from '../../kit/clients/assets.ts'
import { openTestService } from '../../kit/service.ts'

let service: Awaited<ReturnType<typeof openTestService>>
let assets: ReturnType<typeof createAssetClient>
let experimentKey: string
beforeAll(async () => {
  service = await openTestService()
  assets = createAssetClient(service)
  experimentKey = await service.client.createExperiment()
})
afterAll(() => service?.close())

type Answer = {
  format: string
  header: boolean
  columns: string[]
  total: number
  rows: (string | null)[][]
  cut: { row: number; column: number; characters: number }[]
}

async function store(content: string | Buffer, fileName = 'table.csv') {
  const sent = { body: Buffer.from(content), headers: { 'content-type': 'application/octet-stream' } }
  const answer = await assets.upload({ experimentKey, fileName, type: 'dataframe' }, sent)
  expect(answer.status, answer.text).toBe(200)
  return answer.body.assetId as string
}

const ask = (assetId: string, query: Record<string, string | number | boolean> = {}) =>
  service.client.get(
    `/experiment/asset/rows?${new URLSearchParams({ experimentKey, assetId, ...(query as Record<string, string>) })}`,
  )

async function read(assetId: string, query: Record<string, string | number | boolean> = {}): Promise<Answer> {
  const answer = await ask(assetId, query)
  expect(answer.status, answer.text).toBe(200)
  return answer.body as unknown as Answer
}

describe('rows of a table', () => {
  it('are read from any place, with line ends, separators and quotes in their cells', async () => {
    const rows = Array.from({ length: 3_000 }, (_, at) => [String(at), `a "b",\n\r\n${'x'.repeat(at % 97)}`, `é${at}`])
    const quoted = rows.map((it) => it.map((cell) => `"${cell.replaceAll('"', '""')}"`).join(','))
    const id = await store(`\ufeffid,text,name\r\n${quoted.join('\r\n')}\r\n`)
    for (const [from, count] of [
      [0, 3],
      [255, 2],
      [1_023, 514],
      [2_999, 5],
      [2_000, 1],
    ] as const) {
      const answer = await read(id, { from, count })
      expect(answer).toMatchObject({ format: 'csv', header: true, columns: ['id', 'text', 'name'], total: 3_000 })
      expect(answer.rows).toEqual(rows.slice(from, from + count))
    }
    expect((await read(id, { from: 3_000 })).rows).toEqual([])
  })

  it('tell names from numbers in the first row, unless the caller says which it is', async () => {
    const numbers = await store('1,2\n3,4\n')
    expect(await read(numbers)).toMatchObject({ header: false, total: 2, columns: ['', ''] })
    expect(await read(numbers, { header: true })).toMatchObject({ columns: ['1', '2'], rows: [['3', '4']], total: 1 })
    const frame = await store(',0,1\n0,5.5,6\n')
    expect(await read(frame)).toMatchObject({ columns: ['', '0', '1'], rows: [['0', '5.5', '6']] })
    const names = await store('a;b\nx;y,z\n')
    expect(await read(names)).toMatchObject({ columns: ['a', 'b'], rows: [['x', 'y,z']] })
    expect((await read(names, { header: false })).rows).toEqual([
      ['a', 'b'],
      ['x', 'y,z'],
    ])
    const ragged = await store('a\tb\nx\ty\tz\n\nv\n', 'table.tsv')
    expect(await read(ragged)).toMatchObject({ columns: ['a', 'b', ''], rows: [['x', 'y', 'z'], ['v']] })
    expect(await read(await store(''))).toMatchObject({ total: 0, rows: [], columns: [] })
    expect(await read(await store('only,names'))).toMatchObject({ total: 0, columns: ['only', 'names'] })
  })

  it('come from JSON in each form that clients write, numbers digit by digit', async () => {
    const data = '[[1, "x,]\\"", null], [9007199254740993, NaN, {"a": [1, 2]}]]'
    const rows = [
      ['1', 'x,]"', null],
      ['9007199254740993', 'NaN', '{"a":[1,2]}'],
    ]
    const split = await store(`{"columns": ["a", "é", 3], "index": [0, 1], "data": ${data}}`, 'split.json')
    expect(await read(split)).toMatchObject({ format: 'json', columns: ['a', 'é', '3'], rows, total: 2 })
    const last = await store(`{"data": ${data}, "more": {"data": [1]}, "columns": ["a", "b", "c"]}`, 'last.json')
    expect(await read(last, { from: 1 })).toMatchObject({ columns: ['a', 'b', 'c'], rows: [rows[1]], total: 2 })
    const list = await store(`[["a", "b", "c"], ${data.slice(1)}`, 'list.json')
    expect(await read(list)).toMatchObject({ header: true, columns: ['a', 'b', 'c'], rows, total: 2 })
    const records = Array.from({ length: 1_000 }, (_, at) => ({ 'n"é': at, ...(at > 900 && { late: { at } }) }))
    const objects = await store(JSON.stringify(records), 'records.json')
    expect(await read(objects, { from: 900, count: 2 })).toMatchObject({
      columns: ['n"é', 'late'],
      total: 1_000,
      rows: [
        ['900', null],
        ['901', '{"at":901}'],
      ],
    })
  })

  it('say which cells were cut, and give the whole cell to who asks for it', async () => {
    const id = await store(`name\n${'x'.repeat(5_000)}\n`)
    const { rows, cut } = await read(id)
    expect([rows[0]?.[0]?.length, cut]).toEqual([1_000, [{ row: 0, column: 0, characters: 5_000 }]])
    const whole = await read(id, { cellCharactersMax: 10_000 })
    expect([whole.rows[0]?.[0]?.length, whole.cut]).toEqual([5_000, []])
  })

  it('are read again at once, and of a replaced file from the new one', async () => {
    const assetId = 'a-table-of-its-own'
    const put = async (content: string) => {
      const sent = { body: Buffer.from(content), headers: { 'content-type': 'text/csv' } }
      await assets.upload({ experimentKey, fileName: 'same.csv', type: 'dataframe', assetId }, sent)
    }
    await put('a\nx\n')
    expect((await read(assetId)).rows).toEqual([['x']])
    await put('a\ny\nz\n')
    expect((await read(assetId)).rows).toEqual([['y'], ['z']])
  })

  it('of what is no table are refused with the reason', async () => {
    const refusals: [string, string, RegExp][] = [
      ['notes.txt', 'text', /"notes.txt" is neither CSV nor JSON/],
      ['object.json', '{"a": 1}', /is no list of rows/],
      ['broken.json', '[1, 2', /is no list of rows/],
      ['wrong.json', '[{"a" 1}]', /is no JSON/],
    ]
    for (const [fileName, content, message] of refusals) {
      const answer = await ask(await store(content, fileName))
      expect([answer.status, answer.body.msg]).toEqual([400, expect.stringMatching(message)])
    }
    expect((await ask('none')).body.msg).toMatch(/has no asset none/)
    expect((await ask(await store('a'), { from: -1 })).body.msg).toMatch(/^from: /)
    expect((await ask(await store('a'), { count: 5_001 })).body.msg).toMatch(/^count: /)
  })
})

describe('CSV', () => {
  const cell = fc.oneof(fc.string(), fc.constantFrom('', '"', '\n', '\r', ',', 'a"b', '"\r\n"', ',,'))
  const quote = (it: string) => (/[",\n\r]/.test(it) || it === '' ? `"${it.replaceAll('"', '""')}"` : it)

  it('is read back as it was written, whatever the chunks and the range', () => {
    fc.assert(
      fc.property(
        fc.array(fc.array(cell, { minLength: 1, maxLength: 4 }), { maxLength: 20 }),
        fc.constantFrom('\n', '\r\n'),
        fc.integer({ min: 1, max: 9 }),
        (rows, end, chunkBytes) => {
          const bytes = Buffer.from(rows.map((row) => row.map(quote).join(',') + end).join(''))
          const scanner = createCsvScanner(',', 0)
          for (let at = 0; at < bytes.length; at += chunkBytes) scanner.push(bytes.subarray(at, at + chunkBytes))
          const { marks } = scanner.end()
          expect(marks.total).toBe(rows.length)
          expect(parseCsv(bytes.toString(), ',')).toEqual(
            rows.map((row) => row.map((it) => Buffer.from(it).toString())),
          )
        },
      ),
    )
  })

  it('counts as many rows as it reads, of any bytes', () => {
    const text = fc.array(fc.constantFrom('"', '\n', '\r', ',', 'a', ' '), { maxLength: 40 }).map((it) => it.join(''))
    fc.assert(
      fc.property(text, (it) => {
        const scanner = createCsvScanner(',', 0)
        scanner.push(Buffer.from(it))
        expect(parseCsv(it, ',')).toHaveLength(scanner.end().marks.total)
      }),
    )
  })
})
