import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { eventually } from '../../kit/eventually.ts'
import { inForm } from '../../kit/form.ts'
import { openTwoUsers, type TwoUsers } from '../accounts/two-users.ts'
import { codes, expectRefusal } from '../http-error.ts'

let service: TwoUsers
beforeAll(async () => {
  service = await openTwoUsers()
})
afterAll(() => service?.close())

type Sent = { output: string; stderr?: boolean; context?: string; offset?: number | string; localTimestamp?: number }

async function log(experimentKey: string, outputLines: unknown[], more = {}) {
  const answer = await service.client.post('/write/experiment/output', { experimentKey, outputLines, ...more })
  expect(answer.text).toBe('{"msg":"Saved","code":200,"data":null,"sdk_error_code":0}')
}

async function readOutput(experimentKey: string): Promise<string> {
  const answer = await service.client.get(`/experiment/output?experimentKey=${experimentKey}`)
  expect([answer.status, answer.headers.get('content-type')]).toEqual([200, 'application/json'])
  expect(Object.keys(answer.body)).toEqual(['output'])
  return answer.body.output as string
}

const expectOutput = (experimentKey: string, expected: string) =>
  eventually(async () => expect(await readOutput(experimentKey)).toBe(expected))

type Line = { number: number; output: string; stderr: boolean; timestamp: number; runContext: string | null }
type Lines = { lines: Line[]; total: number; found: number; nextFrom: number | null }

async function readLines(experimentKey: string, query: Record<string, string | number> = {}): Promise<Lines> {
  const search = new URLSearchParams({ experimentKey, ...query } as Record<string, string>)
  const answer = await service.client.get(`/experiment/output/lines?${search}`)
  expect(answer.status, answer.text).toBe(200)
  return answer.body as Lines
}

describe('the whole output', () => {
  it('is "" when nothing was logged', async () => {
    const experimentKey = await service.client.createExperiment()
    await log(experimentKey, [])

    const { text } = await service.client.get(`/experiment/output?experimentKey=${experimentKey}`)
    expect(text).toBe('{"output":""}')
  })

  it('has lines in the order of their time, then of their offset', async () => {
    const experimentKey = await service.client.createExperiment()
    await log(experimentKey, [
      { output: 'third', offset: 3, localTimestamp: 1 },
      { output: 'second, later', offset: 2, localTimestamp: 9 },
    ])
    await log(experimentKey, [
      { output: 'second, earlier', offset: 2, localTimestamp: 8 },
      { output: 'last', offset: '9223372036854775807' },
      { output: 'before all', offset: -5 },
      { output: 'first', offset: 1, stderr: true },
    ])

    await expectOutput(experimentKey, 'third\nsecond, earlier\nsecond, later\nbefore all\nfirst\nlast')
  })

  it('lines without an offset stay in order of arrival', async () => {
    const experimentKey = await service.client.createExperiment()
    const lines = Array.from({ length: 50 }, (_, at) => `line ${at}`)
    await log(
      experimentKey,
      lines.slice(0, 30).map((output) => ({ output })),
    )
    for (const output of lines.slice(30)) await log(experimentKey, [{ output }])

    await expectOutput(experimentKey, lines.join('\n'))
  })

  it('lines of a writer that sends newlines get none, and those of others one each', async () => {
    const experimentKey = await service.client.createExperiment()
    const pieces = ['', 'a\n', 'b', '', '\n', '\n', 'c\r\n', 'two\nin one', 'd\n']
    const lines = ['e', 'f\ng', '', 'h'].map((output) => ({ output, stderr: true }))
    await log(
      experimentKey,
      [...pieces.map((output) => ({ output })), ...lines].map((it, offset) => ({ ...it, offset })),
    )

    await expectOutput(experimentKey, 'a\nb\n\nc\r\ntwo\nin oned\ne\nf\ng\n\nh')
  })

  it('keeps every character', async () => {
    const experimentKey = await service.client.createExperiment()
    const all = `${Array.from({ length: 0x2100 }, (_, at) => String.fromCharCode(at + 1)).join('')}\u{1f600}\u{10ffff}"\\/`
    await log(experimentKey, [{ output: all, offset: 1 }])

    await expectOutput(experimentKey, all)
  })

  it('an equal line is stored twice, and a repeated Idempotency-Key once', async () => {
    const experimentKey = await service.client.createExperiment()
    const line = { output: 'same', offset: 1, localTimestamp: 1 }
    const headers = { 'idempotency-key': 'the same' }
    await log(experimentKey, [line, line])
    for (let time = 0; time < 3; time++) {
      const body = { experimentKey, outputLines: [{ ...line, output: 'keyed' }] }
      await service.client.post('/write/experiment/output', body, { headers })
    }
    await log(experimentKey, [{ output: 'end', offset: 2 }])

    await expectOutput(experimentKey, 'same\nsame\nkeyed\nend')
  })

  it('an invalid line is named, and nothing of its request is stored', async () => {
    const experimentKey = await service.client.createExperiment()
    const lines = [{ output: 'good' }, { output: 'good', offset: 'x' }, { output: 5 }]

    const answer = await service.client.post('/write/experiment/output', { experimentKey, outputLines: lines })

    expectRefusal(answer, 400, codes.badRequest, 'outputLines[1].offset: expected an integer from -2^63 to 2^63-1')
    await log(experimentKey, [{ output: 'later' }])
    await expectOutput(experimentKey, 'later')
  })

  it('a line of a million characters is kept', async () => {
    const experimentKey = await service.client.createExperiment()
    const output = 'é'.repeat(1_000_000)
    await log(experimentKey, [{ output }])

    await eventually(async () => expect((await readOutput(experimentKey)).length).toBe(output.length))
    expect(await readOutput(experimentKey)).toBe(output)
  })
})

describe('lines of the output', () => {
  it('are read forward, backward and by pages, of one stream, and by what they say', async () => {
    const experimentKey = await service.client.createExperiment()
    expect(await readLines(experimentKey)).toEqual({ lines: [], total: 0, found: 0, nextFrom: null })
    const sent = Array.from({ length: 30 }, (_, at) => ({
      output: at % 7 === 3 ? `\u001b[31mERR\u001b[0mOR at ${at}\n` : `step ${at}\n`,
      stderr: at % 7 === 3,
      localTimestamp: 1_000 + at,
      offset: at,
    }))
    await log(experimentKey, sent, { context: 'worker 1' })
    await eventually(async () => expect((await readLines(experimentKey)).total).toBe(30))

    const numbers = async (query: Record<string, string | number>) => {
      const { lines, nextFrom, found } = await readLines(experimentKey, query)
      return [lines.map((it) => it.number), nextFrom, found]
    }
    expect((await readLines(experimentKey, { from: 3, limit: 1 })).lines).toEqual([
      {
        number: 3,
        output: '\u001b[31mERR\u001b[0mOR at 3',
        stderr: true,
        timestamp: 1_003,
        runContext: 'worker 1',
      },
    ])
    expect(await numbers({ limit: 2 })).toEqual([[0, 1], 2, 30])
    expect(await numbers({ from: 28, limit: 2 })).toEqual([[28, 29], null, 30])
    expect(await numbers({ from: 100 })).toEqual([[], null, 30])
    expect(await numbers({ from: 4, skip: 20, limit: 3 })).toEqual([[24, 25, 26], 27, 30])
    expect(await numbers({ direction: 'backward', limit: 2 })).toEqual([[28, 29], 28, 30])
    expect(await numbers({ direction: 'backward', from: 2, limit: 5 })).toEqual([[0, 1], null, 30])
    expect(await numbers({ direction: 'backward', skip: 29, limit: 5 })).toEqual([[0], null, 30])
    expect(await numbers({ stderr: 'true' })).toEqual([[3, 10, 17, 24], null, 4])
    expect(await numbers({ stderr: 'true', limit: 2 })).toEqual([[3, 10], 11, 4])
    expect(await numbers({ stderr: 'true', direction: 'backward', limit: 2 })).toEqual([[17, 24], 17, 4])
    expect(await numbers({ search: 'error AT 1' })).toEqual([[10, 17], null, 2])
    expect(await numbers({ search: 'step 2', skip: 1, limit: 1 })).toEqual([[20], 21, 10])
    expect(await numbers({ search: 'step 2', stderr: 'true' })).toEqual([[], null, 0])
    expect(await numbers({ search: 'step 2', from: 100 })).toEqual([[], null, 10])

    for (const [query, message] of [
      ['limit=0', 'limit: must be 1 or more'],
      ['limit=10001', 'limit: must be 10000 or fewer'],
      ['from=-1', 'from: must be 0 or more'],
      ['direction=up', 'direction: must be forward or backward'],
      ['search=', 'search: must not be empty'],
    ]) {
      const answer = await service.client.get(`/experiment/output/lines?experimentKey=${experimentKey}&${query}`)
      expectRefusal(answer, 400, codes.badRequest, message as string)
    }
  })

  it('come in pages of fewer where they are long, so that no page is too large for a process', async () => {
    const experimentKey = await service.client.createExperiment()
    const sent = Array.from({ length: 20 }, (_, at) => `${at} of many`.padEnd(1_000_000, 'x'))
    for (const [at, output] of sent.entries()) await log(experimentKey, [{ output, offset: at, localTimestamp: 5 }])
    // An empty one behind them is no reason for a page of its own.
    await log(experimentKey, [{ output: '', offset: 20, localTimestamp: 5 }])
    await eventually(async () => expect((await readLines(experimentKey, { limit: 1 })).total).toBe(21))

    async function readPages(query: Record<string, string>) {
      const pages: string[][] = []
      for (let from: number | null | undefined; from !== null; ) {
        const page = await readLines(experimentKey, { ...query, ...(from !== undefined && { from }) })
        pages.push(page.lines.map((it) => it.output))
        from = page.nextFrom
      }
      return pages
    }
    const filter = { search: 'OF MANY' }
    for (const [query, sizes, expected] of [
      [{}, [17, 4], [...sent, '']],
      [{ direction: 'backward' }, [18, 3], [...sent, '']],
      [filter, [17, 3], sent],
      [{ ...filter, direction: 'backward' }, [17, 3], sent],
    ] as const) {
      const pages = await readPages(query)
      expect(pages.map((it) => it.length)).toEqual(sizes)
      const read = ('direction' in query ? pages.toReversed() : pages).flat()
      expect(read.map((it) => [it.length, it.slice(0, 20)])).toEqual(expected.map((it) => [it.length, it.slice(0, 20)]))
    }
    const search = { workspaceName: service.workspaceName, search: 'of many', linesPerRun: 100 }
    const { experimentKey: _, ...project } = (
      await service.client.get(`/experiment/metadata?experimentKey=${experimentKey}`)
    ).body
    const { body } = await service.client.post('/project/output/search', {
      ...search,
      projectName: project.projectName,
    })
    expect(body.runs).toEqual([expect.objectContaining({ experimentKey, found: 20 })])
    expect((body.runs as { lines: unknown[] }[])[0]?.lines).toHaveLength(17)
  })

  it('are those of the whole output, whatever pieces they were sent in', async () => {
    const piece = fc.constantFrom('', 'a', 'Bc', '\n', 'd\n', 'e\nf', 'g\n\nh\n', '\r', 'aB')
    const row = fc.record({
      output: piece,
      stderr: fc.boolean(),
      context: fc.constantFrom('', 'w'),
      localTimestamp: fc.integer({ min: 1, max: 9 }),
    })
    const outputs = fc.sample(fc.array(row, { minLength: 1, maxLength: 25 }), {
      numRuns: inForm({ short: 12, middle: 12, long: 200 }),
      seed: 3,
    })
    const check = async (rows: (typeof outputs)[number]) => {
      const experimentKey = await service.client.createExperiment()
      const sent = rows.map((it, offset) => ({ ...it, offset }))
      for (const context of ['', 'w']) {
        const ofContext = sent.filter((it) => it.context === context)
        await log(experimentKey, ofContext, context === '' ? {} : { context })
      }
      await log(experimentKey, [{ output: 'end', localTimestamp: 10 }], { context: 'last' })

      const expected = toLines([...sent, { output: 'end', localTimestamp: 10, offset: 0, context: 'last' }])
      // What was sent last may be stored first.
      await expectOutput(experimentKey, expected.map((it) => it.output).join('\n'))
      const read = async (query: Record<string, string | number>) =>
        (await readLines(experimentKey, query)).lines.map(({ number, output, stderr }) => ({ number, output, stderr }))
      expect(await read({})).toEqual(expected)
      expect(await read({ direction: 'backward', limit: 3 })).toEqual(expected.slice(-3))
      expect(await read({ from: 2, limit: 2 })).toEqual(expected.slice(2, 4))
      expect(await read({ stderr: 'true' })).toEqual(expected.filter((it) => it.stderr))
      expect(await read({ search: 'ab' })).toEqual(expected.filter((it) => /ab/i.test(it.output)))
    }
    await Promise.all(outputs.map(check))
  })
})

/** The lines of rows, told straight: a line end goes before a row that no one ended and that its writer does not go on with. */
function toLines(rows: (Sent & { offset: number })[]) {
  const writerOf = (it: Sent) => `${it.context} ${it.stderr ?? false}`
  const ending = new Set(rows.filter((it) => it.output.endsWith('\n')).map(writerOf))
  const said = rows
    .filter((it) => it.output !== '' || !ending.has(writerOf(it)))
    .sort((one, other) => Number(one.localTimestamp) - Number(other.localTimestamp) || one.offset - other.offset)
  const lines: { number: number; output: string; stderr: boolean }[] = []
  let isOpen = false
  let before = ''
  for (const row of said) {
    const pieces = row.output.replace(/\n$/, '').split('\n')
    const goesOn = isOpen && before === writerOf(row) && ending.has(before)
    pieces.forEach((piece, at) => {
      const last = lines.at(-1)
      if (at === 0 && goesOn && last) last.output += piece
      else lines.push({ number: lines.length, output: piece, stderr: row.stderr ?? false })
    })
    isOpen = !row.output.endsWith('\n')
    before = writerOf(row)
  }
  return lines
}

describe('the search in the output of a project', () => {
  it('finds the runs that printed a text, with their first lines, page by page', async () => {
    const project = { workspaceName: service.workspaceName, projectName: 'searched' }
    const keys: string[] = []
    for (let at = 0; at < 6; at++) {
      const key = await service.client.createExperiment(project)
      keys.push(key)
      const lines =
        at % 2 === 0 ? ['fine\n', 'CUDA out ', 'of memory\n', 'cuda OUT of memory again\n'] : ['fine\n', 'CUDA', '\n']
      await log(
        key,
        lines.map((output, offset) => ({ output, offset, localTimestamp: 5, stderr: at === 4 })),
      )
      await eventually(async () => expect((await readLines(key)).total).toBe(at % 2 === 0 ? 3 : 2))
    }
    const search = async (more: Record<string, unknown>) => {
      const answer = await service.client.post('/project/output/search', {
        ...project,
        search: 'cuda out of mem',
        ...more,
      })
      expect(answer.status, answer.text).toBe(200)
      return answer.body as {
        runs: { experimentKey: string; found: number; lines: Line[] }[]
        total: number
        searched: number
        nextCursor?: string
      }
    }
    const all = await search({})
    expect(all.runs.map((it) => [it.experimentKey, it.found])).toEqual([keys[4], keys[2], keys[0]].map((it) => [it, 2]))
    expect(all).toMatchObject({ total: 6, searched: 6 })
    expect(all.nextCursor).toBeUndefined()
    expect(all.runs[0]?.lines.map((it) => [it.number, it.output])).toEqual([
      [1, 'CUDA out of memory'],
      [2, 'cuda OUT of memory again'],
    ])
    expect((await search({ stderr: true })).runs.map((it) => it.experimentKey)).toEqual([keys[4]])
    expect((await search({ stderr: false, linesPerRun: 1 })).runs.map((it) => it.lines.length)).toEqual([1, 1])
    expect((await search({ archived: true })).runs).toEqual([])

    const first = await search({ size: 2 })
    expect([first.runs.map((it) => it.experimentKey), first.searched]).toEqual([[keys[4], keys[2]], 4])
    const second = await search({ size: 2, cursor: first.nextCursor })
    expect(second.runs.map((it) => it.experimentKey)).toEqual([keys[0]])
    expect(second.nextCursor).toBeUndefined()

    const asked = { ...project, search: 'x', cursor: 'no-cursor' }
    const refused = await service.client.post('/project/output/search', asked)
    expectRefusal(refused, 400, codes.badRequest, 'cursor: expected the nextCursor of an earlier answer')
  })
})
