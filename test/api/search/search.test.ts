import { readFileSync } from 'node:fs'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { parseQuery } from '../../../store/search/parse.ts'
import type { Field, Query, Test, Value } from '../../../store/search/query.ts'
import { SearchError } from '../../../store/search/search-error.ts'
import { quote, toWritten } from '../../../store/search/tokens.ts'
import { aPoint } from '../../kit/builders.ts'
import { eventually } from '../../kit/eventually.ts'
import { openTestService, uniqueName } from '../../kit/service.ts'

const page = readFileSync(new URL('../../../docs/search.md', import.meta.url), 'utf8')
const blocks = [...page.matchAll(/```text\n(.*?)```/gs)].map((it) => it[1] as string)

function faultOf(text: string): SearchError | undefined {
  try {
    parseQuery(text)
    return undefined
  } catch (error) {
    if (error instanceof SearchError) return error
    throw error
  }
}

describe('the language of searches', () => {
  it('reads the examples of its page, and answers the error of its page', () => {
    const [examples = '', error = ''] = blocks
    for (const it of examples.trim().split('\n')) expect(faultOf(it), it).toBeUndefined()
    const told = faultOf('metric.loss <')
    expect(`query, character ${(told?.at ?? 0) + 1}: ${told?.message}\n`).toBe(error)
  })

  it('says of any text that is no query where it cannot be read', () => {
    const piece = fc.oneof(
      fc.constantFrom('and', 'or', 'not', 'has', 'in', 'like', '(', ')', ',', '=', '!=', '<', '~', '!', ' ', '\n'),
      fc.constantFrom(
        'metric.',
        'metric.loss',
        'param."a b"',
        'tags.x',
        'attribute.no',
        ':min',
        'null',
        '2h',
        '"',
        '`',
        "'",
      ),
      fc.constantFrom('1e-3', '"(["', '2026-11-22', '2026-99-99', '\\', 'true', '.', '😀'),
      fc.string({ unit: 'binary', maxLength: 6 }),
    )
    const texts = fc.array(piece, { maxLength: 14 }).map((it) => it.join(''))
    let read = 0
    fc.assert(
      fc.property(texts, (text) => {
        const fault = faultOf(text)
        if (fault === undefined) read++
        else {
          expect(fault.at).toBeGreaterThanOrEqual(0)
          expect(fault.at).toBeLessThanOrEqual(text.length)
          expect(fault.message).not.toBe('')
        }
      }),
      { numRuns: 10_000 },
    )
    expect(read).toBeGreaterThan(300)
  })

  it.each([
    ['a'.repeat(10_001), 10_000, 'must have 10000 characters or fewer'],
    ['('.repeat(60), 51, 'must be nested 50 levels deep or less'],
    ['not '.repeat(60), 204, 'must be nested 50 levels deep or less'],
    ['a '.repeat(101), 200, 'must have 100 tests or fewer'],
    ['lr in 1', 6, 'expected ( after in, found 1'],
    ['lr in (1 2)', 9, 'expected , or ) here, found 2'],
    ['metrics.acc', 11, 'expected =, !=, <, <=, >, >=, ~, !~, like, ilike or in after metrics.acc'],
    ['params. = 1', 7, 'expected a name after params.'],
    ['attributes.speed > 1', 0, 'there is no attribute speed, found attributes.speed'],
    ['name ~ "("', 7, '( is no regular expression of RE2, found "("'],
    ['a and', 5, 'expected a test such as metric.loss < 0.1, or a word'],
    ['(a or b', 7, 'expected ) here'],
    ['a)', 1, 'expected and, or, or the end, found )'],
    ['x = "b', 4, 'the quote " is never closed'],
    ['x ! 1', 2, 'expected != or !~ here'],
    ['param.x:max = 1', 0, ':max is of metrics, found param.x:max'],
  ])('%j cannot be read at %i', (text, at, message) => {
    expect({ at: faultOf(text)?.at, message: faultOf(text)?.message }).toEqual({ at, message })
  })
})

/** What a run of the test has. */
type Run = {
  name: string
  tags: string[]
  params: Record<string, string>
  others: Record<string, string>
  loss: number[]
}

const runs: Run[] = Array.from({ length: 40 }, (_, at) => ({
  name: `${at % 3 ? 'resnet' : 'Vit'}-${at}`,
  tags: at % 4 === 0 ? ['baseline', `t${at % 3}`] : [],
  params: {
    ...(at % 5 && { rate: ['0.1', '1e-3', '10', 'high', '0.10'][at % 5] as string }),
    ...(at % 2 && { 'opt (x)': ['adam', 'sgd', 'Adam W'][at % 3] as string }),
    both: String(at % 7),
  },
  others: { ...(at % 3 === 1 && { note: `run ${at}` }), ...(at % 6 === 0 && { flag: 'True' }) },
  loss: at % 4 === 3 ? [] : [at / 10, -at, at === 8 ? Number.NaN : at % 10],
}))

const fields: Field[] = [
  { source: 'parameter', name: 'rate', of: 'last' },
  { source: 'parameter', name: 'opt (x)', of: 'last' },
  { source: 'other', name: 'note', of: 'last' },
  { source: 'any', name: 'both', of: 'last' },
  { source: 'any', name: 'flag', of: 'last' },
  { source: 'metric', name: 'loss', of: 'last' },
  { source: 'metric', name: 'loss', of: 'min' },
  { source: 'metric', name: 'loss', of: 'max' },
  { source: 'attribute', name: 'name', of: 'last' },
  { source: 'attribute', name: 'tag', of: 'last' },
]
const number = (text: string): Value => ({ is: 'number', number: Number(text), text })
const values: Value[] = [
  ...['0.1', '1e-3', '10', '3', '-12', '0'].map(number),
  ...['adam', 'run 4', 'baseline', 'resnet-7', 'high', 'z'].map((text): Value => ({ is: 'text', text })),
  { is: 'flag', flag: true, text: 'true' },
]

const aField = fc.constantFrom(...fields)
const aTest = (operators: Test['operator'][], isNegated: boolean): fc.Arbitrary<Query> =>
  fc
    .tuple(aField, fc.constantFrom(...operators), fc.constantFrom(...values))
    .map(([field, operator, value]): Query => ({ is: 'test', field, operator, isNegated, values: [value] }))
const { query: aQuery } = fc.letrec<{ query: Query }>((tie) => ({
  query: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    aTest(['=', '<', '<=', '>', '>='], false),
    aTest(['in'], false),
    aTest(['=', 'in'], true),
    aField.map((field): Query => ({ is: 'has', field })),
    fc.constantFrom('RESNET', 'vit-1', 'base', 'nothing').map((text): Query => ({ is: 'word', text })),
    tie('query').map((of): Query => ({ is: 'not', of })),
    fc
      .tuple(fc.constantFrom('and' as const, 'or' as const), tie('query'), tie('query'))
      .map(([is, ...of]): Query => ({ is, of })),
  ),
}))

const sources = { parameter: 'param.', metric: 'metric.', other: 'other.', tag: 'tag.', attribute: '', any: '' }

/** A query as somebody may write it. */
function toText(query: Query): string {
  if (query.is === 'word') return quote(query.text)
  if (query.is === 'not') return `not (${toText(query.of)})`
  if ('of' in query) return `(${query.of.map(toText).join(` ${query.is} `)})`
  const { source, name, of } = query.field
  const field = `${sources[source]}${toWritten(name)}${of === 'last' ? '' : `:${of}`}`
  if (query.is === 'has') return `has ${field}`
  const written = query.values.map((it) => (it.is === 'text' ? quote(it.text) : it.text))
  if (query.operator === 'in') return `${field} ${query.isNegated ? 'NOT ' : ''}in (${written.join(', ')})`
  return `${field} ${query.isNegated ? '!=' : query.operator} ${written[0]}`
}

/** Reads a run by a way of its own, as slow and plain as can be. */
function isMeant(query: Query, run: Run): boolean {
  if (query.is === 'not') return !isMeant(query.of, run)
  if ('of' in query) {
    const meant = query.of.filter((it) => isMeant(it, run)).length
    return query.is === 'and' ? meant === query.of.length : meant > 0
  }
  if (query.is === 'word') {
    return [run.name, ...run.tags].some((it) => it.toLowerCase().includes(query.text.toLowerCase()))
  }
  const found = valuesOf(query.field, run)
  if (query.is === 'has') return found.length > 0
  const passing = found.filter((it) => query.values.some((value) => isSo(it, query.operator, value)))
  return query.isNegated ? found.length > 0 && passing.length === 0 : passing.length > 0
}

function valuesOf({ source, name, of }: Field, run: Run): (string | number)[] {
  if (source === 'attribute') return name === 'name' ? [run.name] : run.tags
  const finite = run.loss.filter((it) => !Number.isNaN(it))
  const metric = of === 'last' ? run.loss.slice(-1) : [of === 'min' ? Math.min(...finite) : Math.max(...finite)]
  const ofMetric = name === 'loss' && run.loss.length > 0 ? metric : []
  const [param, other] = [run.params[name], run.others[name]].map((it) => (it === undefined ? [] : [it])) as [[], []]
  return { parameter: param, other, metric: ofMetric, tag: other, any: [...param, ...other, ...ofMetric] }[source]
}

function isSo(actual: string | number, operator: string, value: Value): boolean {
  const asNumber = typeof actual === 'number' || /^-?[\d.]+(e-?\d+)?$/.test(actual) ? Number(actual) : undefined
  const wanted = value.is === 'number' ? value.number : undefined
  let pair: [number, number] | [string, string]
  if (wanted !== undefined) {
    if (asNumber === undefined) return false
    pair = [asNumber, wanted]
  } else if (typeof actual === 'number') return false
  else if (value.is === 'flag') pair = [actual.toLowerCase(), 'true']
  else pair = [actual, value.text]
  const [left, right] = pair
  return (
    { '=': left === right, in: left === right, '<': left < right, '<=': left <= right, '>': left > right }[operator] ??
    left >= right
  )
}

describe('a search', () => {
  let service: Awaited<ReturnType<typeof openTestService>>
  let project: { workspaceName: string; projectName: string }
  const keys: string[] = []
  beforeAll(async () => {
    service = await openTestService()
    project = { workspaceName: service.workspaceName, projectName: uniqueName('search') }
    for (const { name, tags, params, others, loss } of runs) {
      const experimentKey = await service.client.createExperiment({
        projectName: project.projectName,
        experimentName: name,
      })
      keys.push(experimentKey)
      const write = async (path: string, body: object) => {
        const answer = await service.client.post(`/write/experiment/${path}`, { experimentKey, ...body })
        expect(answer.status, answer.text).toBe(200)
      }
      for (const [parameterName, parameterValue] of Object.entries(params)) {
        await write('parameter', { parameterName, parameterValue })
      }
      for (const [key, value] of Object.entries(others)) await write('log-other', { key, value })
      if (tags.length > 0) await write('tags', { addedTags: tags })
      const metrics = loss.map((it, step) =>
        aPoint({ metricValue: Number.isNaN(it) ? 'NaN' : it, step, timestamp: 1_700_000_000_000 + step }),
      )
      if (metrics.length > 0) await write('metrics/batch', { metrics })
    }
    await eventually(async () => {
      const withLoss = runs.filter((it) => it.loss.length > 0).length
      expect((await find('metric.loss > -1e9 or metric.loss = nan')).length).toBe(withLoss)
      expect((await find('metric.loss:min <= 0')).length).toBe(withLoss)
    })
  })
  afterAll(() => service?.close())

  /** The places of the runs that are found. */
  async function find(query: string): Promise<number[]> {
    const { status, body, text } = await service.client.post('/project/runs', {
      ...project,
      columns: [],
      query,
      size: 1_000,
    })
    expect(status, `${query}: ${text}`).toBe(200)
    return (body.runs as { experimentKey: string }[]).map((it) => keys.indexOf(it.experimentKey)).sort((a, b) => a - b)
  }

  it('finds the runs that a plain reading of it finds, whatever it asks', async () => {
    let found = 0
    await fc.assert(
      fc.asyncProperty(aQuery, async (query) => {
        const text = toText(query)
        const expected = runs.flatMap((run, at) => (isMeant(query, run) ? [at] : []))
        expect(await find(text), text).toEqual(expected)
        if (expected.length > 0 && expected.length < runs.length) found++
      }),
      { numRuns: 250 },
    )
    expect(found).toBeGreaterThan(50)
  })

  it.each<[string, (run: Run, at: number) => boolean]>([
    ['name ~ "^resnet-1[0-3]?$"', ({ name }) => /^resnet-1[0-3]?$/.test(name)],
    ['name !~ resnet', ({ name }) => !name.includes('resnet')],
    ['name like "resnet-_"', ({ name }) => /^resnet-.$/.test(name)],
    ['name not ilike "VIT%"', ({ name }) => !name.startsWith('Vit')],
    [
      'params.`opt (x)` = "adam" AND metrics.loss >= 0',
      ({ params, loss }) => params['opt (x)'] === 'adam' && (loss[2] ?? -1) >= 0,
    ],
    ['attributes.status = "FINISHED" and started > 1h', () => true],
    ['started < 1h or ended = 2001-01-01 or duration > 1h', () => false],
    ['state in (running, killed) or crashed = true', () => false],
    ['param.rate = null', ({ params }) => params.rate === undefined],
    ['has tag.note not tag.note = "run 4"', ({ others }) => others.note !== undefined && others.note !== 'run 4'],
    ['metric.loss = nan', (_, at) => at === 8],
    ['', () => true],
  ])('%j finds what it says', async (query, isExpected) => {
    expect(await find(query)).toEqual(runs.flatMap((run, at) => (isExpected(run, at) ? [at] : [])))
  })

  it('is asked with order, pages, groups and predicates, and a bad one is refused by its place', async () => {
    const ask = (fields: object) =>
      service.client.post('/project/runs', { ...project, columns: [], query: 'param.both in (1, 2)', ...fields })
    const sort = [{ column: { source: 'metric', name: 'loss', of: 'min' }, order: 'asc' }]
    const first = await ask({ size: 4, sort })
    const second = await ask({ size: 1_000, sort, cursor: first.body.nextCursor })
    const both = [first, second]
      .flatMap(({ body }) => body.runs as { experimentKey: string }[])
      .map((it) => keys.indexOf(it.experimentKey))
    expect(first.body.total).toBe(12)
    expect(new Set(both)).toEqual(new Set(runs.flatMap((_, at) => (at % 7 === 1 || at % 7 === 2 ? [at] : []))))
    const grouped = await ask({ groupBy: [{ source: 'parameter', name: 'both' }] })
    expect(grouped.body.groups).toEqual([
      { values: ['1'], count: 6 },
      { values: ['2'], count: 6 },
    ])
    const refused = await ask({ query: 'param.both in (1, 2' })
    expect([refused.status, refused.body.msg]).toEqual([400, 'query, character 20: expected , or ) here'])
    const other = await ask({ query: 'param.both = 1', cursor: first.body.nextCursor, sort })
    expect(other.body.msg).toContain('cursor')
  })

  it.each<[string, string[], [number, number]]>([
    ['', ['name', 'key', 'state'], [0, 0]],
    ['los', ['metric.loss'], [0, 3]],
    ['a and param.op', ['param."opt (x)"'], [6, 14]],
    ['params.ra', ['param.rate'], [0, 9]],
    ['state = ', ['running', 'finished', 'crashed', 'lost'], [8, 8]],
    ['(param.rate in (0.1, h', ['high'], [21, 22]],
    ['param."opt (x)" = ', ['adam', 'sgd', '"Adam W"'], [18, 18]],
    ['tag = ba', ['baseline'], [6, 8]],
    ['metric.loss ', ['=', '!=', '<'], [12, 12]],
    ['rate ', ['name', 'key'], [5, 5]],
    ['name = x a', ['and', 'active', 'archived'], [9, 10]],
  ])('is completed: %j', async (query, expected, [from, to]) => {
    const { body } = await service.client.post('/project/query-completion', { ...project, query })
    const texts = (body.suggestions as { text: string }[]).map((it) => it.text)
    expect(texts).toEqual(expect.arrayContaining(expected))
    expect([body.from, body.to]).toEqual([from, to])
  })

  it('is completed in its middle, and told what is wrong with the rest', async () => {
    const { body } = await service.client.post('/project/query-completion', {
      ...project,
      query: 'metric.lo < 1 and',
      at: 9,
    })
    expect(body).toEqual({
      error: { message: 'expected a test such as metric.loss < 0.1, or a word', at: 17 },
      from: 0,
      to: 9,
      suggestions: [{ text: 'metric.loss', is: 'field' }],
    })
  })
})
