import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { aPoint } from '../../kit/builders.ts'
import { createClient, type TestClient } from '../../kit/http/client.ts'
import { uniqueName } from '../../kit/service.ts'
import { openTwoUsers, type TwoUsers } from '../accounts/two-users.ts'
import { codes, expectRefusal } from '../http-error.ts'

const odd = `o'd"d\\name\t\n%_{a}`

let service: TwoUsers
let client: TestClient
let projectName: string
const keys: Record<string, string> = {}

type Logged = {
  parameters?: Record<string, unknown>
  others?: Record<string, unknown>
  tags?: string[]
  points?: Record<string, unknown>[]
}

/** Three experiments that have all there is, and one that has nothing. */
const experiments: Record<string, Logged> = {
  one: {
    parameters: { rate: 0.1, kind: 'adam', big: '9007199254740993', verbose: true, [odd]: 'x' },
    others: { note: 'first of all' },
    tags: ['baseline', 'keep'],
    points: [
      { metricName: 'loss', metricValue: 0.9, step: 1 },
      { metricName: 'loss', metricValue: 0.5, step: 2, timestamp: 1_700_000_001_000 },
      { metricName: 'acc', metricValue: 0.7, context: 'train' },
      { metricName: odd, metricValue: 1 },
    ],
  },
  two: {
    parameters: { rate: '1e-3', kind: 'sgd', big: '9007199254740992', verbose: 'False' },
    others: { note: 'second' },
    tags: ['baseline'],
    points: [
      { metricName: 'loss', metricValue: 'NaN' },
      { metricName: 'acc', metricValue: 0.9, context: 'train' },
    ],
  },
  three: {
    parameters: { rate: 10, kind: 'adamw', empty: '' },
    tags: ['other'],
    points: [{ metricName: 'loss', metricValue: 0.05 }],
  },
  four: {},
}

beforeAll(async () => {
  service = await openTwoUsers()
  client = service.client
  projectName = uniqueName('project')
  for (const [name, { parameters = {}, others = {}, tags = [], points = [] }] of Object.entries(experiments)) {
    const experimentKey = await client.createExperiment({ projectName, experimentName: name })
    keys[name] = experimentKey
    for (const [parameterName, parameterValue] of Object.entries(parameters)) {
      await client.post('/write/experiment/parameter', { experimentKey, parameterName, parameterValue })
    }
    for (const [key, value] of Object.entries(others)) {
      await client.post('/write/experiment/log-other', { experimentKey, key, value })
    }
    if (tags.length > 0) await client.post('/write/experiment/tags', { experimentKey, addedTags: tags })
    for (const it of points) await client.post('/write/experiment/metric', { experimentKey, ...aPoint(it) })
  }
  await client.readPoints(keys.one as string, 'loss', 2)
  for (const name of ['one', 'two', 'three']) await client.readPoints(keys[name] as string, 'loss', 1)
  for (const name of ['one', 'two']) await client.readPoints(keys[name] as string, 'train_acc', 1)
  await client.readPoints(keys.one as string, odd, 1)
})
afterAll(() => service?.close())

const post = (fields: Record<string, unknown>, by = client) => {
  const named = fields.projectId === undefined ? { workspaceName: service.workspaceName, projectName } : {}
  return by.post('/project/query', { ...named, ...fields })
}

async function find(predicates: unknown, more: Record<string, unknown> = {}): Promise<string[]> {
  const answer = await post({ predicates, ...more })
  expect(answer.status, answer.text).toBe(200)
  return (answer.body.experiments as { experimentName: string }[]).map((it) => it.experimentName)
}

const rule = (column: string, operator: string, value?: unknown, type?: string) => [{ column, operator, value, type }]

describe('the experiments found are those', () => {
  it.each([
    ['of all without predicates', [], 'one two three four'],
    ['of all with null', null, 'one two three four'],
    ['of a parameter that is a number', rule('rate--params', '=', 0.1), 'one'],
    ['of a parameter however its number is written', rule('rate--params', '=', '0.001', 'double'), 'two'],
    ['of numbers, not of their texts', rule('rate--params', '<', 9, 'double'), 'one two'],
    ['of at most', rule('rate--params', '<=', '0.1', 'double'), 'one two'],
    ['of more', rule('rate--params', '>', 0.1, 'double'), 'three'],
    ['of at least', rule('rate--params', '>=', 0.1, 'double'), 'one three'],
    ['of a range', rule('rate--params', 'between', ['0.01', '1'], 'double'), 'one'],
    ['outside of a range', rule('rate--params', 'not_between', ['0.01', '1'], 'double'), 'two three'],
    ['of a list', rule('kind--params', 'in', ['adam', 'sgd']), 'one two'],
    ['of no list', rule('kind--params', 'not in', ['adam', 'sgd']), 'three'],
    ['of an integer beyond 2^53', rule('big--params', '=', '9007199254740993', 'double'), 'one'],
    ['below an integer beyond 2^53', rule('big--params', '<', '9007199254740993'), 'two'],
    ['of a text', rule('kind--params', '=', 'adam', 'string'), 'one'],
    ['of another text', rule('kind--params', '!=', 'adam', 'string'), 'two three'],
    ['of a part of it', rule('kind--params', 'contains', 'dam'), 'one three'],
    ['without that part', rule('kind--params', 'not contains', 'dam'), 'two'],
    ['of a beginning', rule('kind--params', 'starts with', 'ada'), 'one three'],
    ['of no such beginning', rule('kind--params', 'not_begins_with', 'ada'), 'two'],
    ['of an end', rule('kind--params', 'ends with', 'w'), 'three'],
    ['with nothing there', rule('big--params', 'is null'), 'three four'],
    ['with something there', rule('big--params', 'is not null'), 'one two'],
    ['of an empty text', rule('empty--params', 'is_empty'), 'three'],
    ['of a text that is not empty', rule('kind--params', 'is_not_empty'), 'one two three'],
    ['of a boolean', rule('verbose--params', '=', true), 'one'],
    ['of a boolean as Python clients send it', rule('verbose--params', 'equal', 0, 'boolean'), 'two'],
    ['of an odd name', rule(`${odd}--params`, '=', 'x'), 'one'],
    ['of another', rule('note--log_other', 'contains', 'of'), 'one'],
    ['of a name, which is an other', rule('Name--log_other', '=', 'two'), 'two'],
    ['of a metric by its last value', rule('loss--metrics', '>=', 0.5, 'double'), 'one'],
    ['of a metric in a context, by its summary name', rule('train_acc--metrics', '>', 0.8, 'double'), 'two'],
    ['of a metric that is NaN', rule('loss--metrics', '=', 'NaN', 'double'), 'two'],
    ['of a metric that is less, which NaN is not', rule('loss--metrics', '<', 1e9, 'double'), 'one three'],
    ['of a metric of an odd name', rule(`${odd}--metrics`, '=', 1, 'double'), 'one'],
    ['with no such metric', rule('train_acc--metrics', 'is_null'), 'three four'],
    ['of a metadatum', rule('experimentName--metadata', '=', 'four'), 'four'],
    ['of a time', rule('startTimeMillis--metadata', '>', '2020-01-01 00:00:00', 'datetime'), 'one two three four'],
    ['of a time to come', rule('startTimeMillis--metadata', '>', '2100-01-01', 'datetime'), ''],
    ['of a metadatum that is a boolean', rule('archived--metadata', '=', 'false', 'boolean'), 'one two three four'],
    ['of a metadatum that is null', rule('filePath--metadata', 'is_null'), 'one two three four'],
    ['of a tag', rule('keep--tag', '='), 'one'],
    ['of a part of a tag', rule('any--tag', 'contains', 'base'), 'one two'],
    ['without a tag', rule('baseline--tag', 'is_null'), 'three four'],
    ['without a tag that is equal', rule('baseline--tag', '!='), 'three four'],
    ['of a column that nobody has', rule('absent--params', '=', 1), ''],
    ['of a metric that nobody has', rule('absent--metrics', '!=', 1), ''],
    ['of a metadatum that there is not', rule('constructor--metadata', 'is_not_null'), ''],
    ['of null in a column that nobody has', rule('absent--params', 'is_null'), 'one two three four'],
    ['of nothing that is SQL', rule("x' OR '1'='1--params", '=', "x' OR '1'='1"), ''],
  ])('%s', async (_name, predicates, names) => {
    expect((await find(predicates)).join(' ')).toBe(names)
  })
})

it('takes what the Python client makes of `(Metric("loss") < 1) & (Parameter("kind") == "adam") & Tag("keep")`', async () => {
  const group = (source: string, ...rules: unknown[]) => ({ source, query: { condition: 'AND', rules, valid: true } })
  const [less, equal, tag] = [
    { id: 'loss', field: 'loss', type: 'double', operator: 'less', value: 1 },
    { id: 'kind', field: 'kind', type: 'string', operator: 'equal', value: 'adam' },
    { id: 'keep', field: 'keep', type: 'string', operator: 'equal', value: 'keep' },
  ]
  expect(await find([group('metrics', less)])).toEqual(['one', 'three'])
  expect(await find([group('metrics', less), group('params', equal), group('tag', tag)])).toEqual(['one'])
  const absent = { id: 'kind', field: 'kind', type: 'string', operator: 'is_null', value: null }
  expect(await find([group('params', absent)])).toEqual(['four'])
  const rates = [
    { id: 'rate', field: 'rate', type: 'double', operator: 'greater', value: 0.01 },
    { id: 'rate', field: 'rate', type: 'double', operator: 'between', value: ['0', '5'] },
  ]
  expect(await find([group('params', ...rates)])).toEqual(['one'])
})

it('accepts nested groups, each of which may be negated', async () => {
  const [adam, sgd, low] = [
    rule('kind--params', '=', 'adam')[0],
    rule('kind--params', '=', 'sgd')[0],
    rule('loss--metrics', '<', 0.1)[0],
  ]
  expect(await find({ condition: 'OR', rules: [adam, low] })).toEqual(['one', 'three'])
  expect(await find([{ condition: 'or', rules: [adam, { condition: 'AND', rules: [sgd, low] }] }])).toEqual(['one'])
  expect(await find({ condition: 'OR', not: true, rules: [adam, sgd] })).toEqual(['three', 'four'])
  expect(await find({ condition: 'OR', rules: [] })).toEqual([])
  expect(await find({ rules: [] })).toEqual(['one', 'two', 'three', 'four'])
})

it('returns the metadata and order of a list, archived experiments only on request', async () => {
  const listed = await client.get(
    `/experiments?${new URLSearchParams({ workspaceName: service.workspaceName, projectName })}`,
  )
  const experimentKeys = (listed.body.experiments as { experimentKey: string }[]).map((it) => it.experimentKey)
  expect((await post({ predicates: [] })).body).toEqual({ ...listed.body, experimentKeys })
  await client.get(`/write/experiment/archive?experimentKey=${keys.three}`)
  expect(await find([])).toEqual(['one', 'two', 'four'])
  expect(await find(rule('rate--params', '>', 0), { archived: true })).toEqual(['three'])
  await client.get(`/write/experiment/restore?experimentKey=${keys.three}`)
})

it('pages through the results, each experiment once', async () => {
  const predicates = rule('kind--params', 'is_not_null')
  const names: string[] = []
  let page: unknown
  do {
    const { body } = await post({ predicates, pageSize: 2, page })
    names.push(...(body.experiments as { experimentName: string }[]).map((it) => it.experimentName))
    page = body.nextPage
  } while (page !== null)
  expect(names).toEqual(['one', 'two', 'three'])
})

it('is only for readers of the project: by its id, or with a share code', async () => {
  const names = new URLSearchParams({ workspaceName: service.workspaceName, projectName })
  const { projectId } = (await client.get(`/project?${names}`)).body
  expect(((await post({ projectId, predicates: [] })).body.experiments as unknown[]).length).toBe(4)
  const { shareCode } = (await client.get(`/write/project/add-share-link?projectId=${projectId}`)).body
  const visitor = createClient(service.url, { apiKey: '', workspaceName: '' })
  const shared = await visitor.post(`/project/query?shareCode=${shareCode}`, {
    projectId,
    predicates: rule('keep--tag', '='),
  })
  expect((shared.body.experiments as { experimentKey: string }[]).map((it) => it.experimentKey)).toEqual([keys.one])
  const [foreign, absent] = [
    await post({ projectId, predicates: [] }, service.stranger),
    await post({ projectId: 'absent', predicates: [] }, service.stranger),
  ]
  expectRefusal(foreign, 400, codes.projectUnknown, /no such project/)
  expect(absent.text).toBe(foreign.text)
  expectRefusal(await post({ projectId, workspaceName: 'x' }), 400, codes.badRequest, /^Name the project/)
})

describe('names what is wrong:', () => {
  const good = { column: 'a--params', operator: '=', value: 1 }
  it.each([
    [5, 'predicates: expected a list or an object'],
    ['x', 'predicates: expected a list or an object'],
    [[null], 'predicates[0]: is missing'],
    [[5], 'predicates[0]: expected an object'],
    [[good, [good]], 'predicates[1]: expected an object'],
    [[good, good, { ...good, operator: 'like' }], /^predicates\[2\]\.operator: expected one of =, !=/],
    [[{ ...good, operator: 'constructor' }], /^predicates\[0\]\.operator: expected one of/],
    [[{ ...good, operator: 5 }], /^predicates\[0\]\.operator: expected one of/],
    [[{ ...good, operator: undefined }], 'predicates[0].operator: is missing'],
    [[{ ...good, value: undefined }], 'predicates[0].value: is missing'],
    [[{ ...good, value: {} }], 'predicates[0].value: expected a string, a number or a boolean'],
    [[{ ...good, value: 'x', type: 'double' }], 'predicates[0].value: expected a number'],
    [[{ ...good, value: 'x', type: 'datetime' }], /^predicates\[0\]\.value: expected a time/],
    [[{ ...good, value: 2, type: 'boolean' }], 'predicates[0].value: expected true or false'],
    [[{ ...good, type: 'colour' }], /^predicates\[0\]\.type: expected one of string, boolean/],
    [[{ ...good, type: {} }], /^predicates\[0\]\.type: expected one of string, boolean/],
    [[{ ...good, operator: 'between', value: [1] }], 'predicates[0].value: expected a list of two values'],
    [[{ ...good, operator: 'between', value: 1 }], 'predicates[0].value: expected a list'],
    [[{ ...good, operator: 'between', value: [1, 'x'], type: 'double' }], 'predicates[0].value[1]: expected a number'],
    [
      [{ ...good, operator: 'in', value: Array(1_001).fill(1) }],
      'predicates[0].value: must have 1000 entries or fewer',
    ],
    [[{ operator: '=', value: 1 }], 'predicates[0].field: is missing'],
    [[{ ...good, column: 5 }], 'predicates[0].column: expected a string'],
    [[{ ...good, column: 'a\0--params' }], /^predicates\[0\]\.column: must not hold NUL/],
    [[{ ...good, column: 'a' }], /^predicates\[0\]\.source: is missing/],
    [
      [{ ...good, source: 'env' }],
      /^predicates\[0\]\.source: expected one of metadata, log_other, params, metrics, tag/,
    ],
    [[{ source: 'params', query: 5 }], 'predicates[0].query: expected an object'],
    [[{ source: 'params', query: { rules: 5 } }], 'predicates[0].query.rules: expected a list'],
    [
      [{ source: 'params', query: { condition: 'AND', rules: [{ field: 'a', operator: 'x' }] } }],
      /^predicates\[0\]\.query\.rules\[0\]\.operator: expected one of/,
    ],
    [{ condition: 'XOR', rules: [] }, 'predicates.condition: expected AND or OR'],
    [{ condition: 5, rules: [] }, 'predicates.condition: expected AND or OR'],
    [{ not: 'x', rules: [] }, 'predicates.not: expected true or false'],
    [Array(101).fill(good), 'predicates: must have 100 entries or fewer'],
    [Array(2).fill({ rules: Array(51).fill(good) }), 'predicates: must have 100 rules or fewer'],
  ])('%j', async (predicates, message) => {
    expectRefusal(await post({ predicates }), 400, codes.badRequest, message)
  })

  it('but not long names', async () => {
    const names = [...Array.from({ length: 20 }, (_, n) => `${'é'.repeat(1_900)}${n}`), 'a_'.repeat(990)]
    expect((await post({ predicates: names.map((it) => ({ ...good, column: `${it}--metrics` })) })).status).toBe(200)
  })

  it('a tree that is too deep', async () => {
    const tree = (levels: number): object => (levels === 0 ? good : { rules: [tree(levels - 1)] })
    expect((await post({ predicates: tree(9) })).status).toBe(200)
    expectRefusal(
      await post({ predicates: tree(10) }),
      400,
      codes.badRequest,
      /: must be nested 10 levels deep or less$/,
    )
    const text = `{"projectId":"x","predicates":${'{"rules":['.repeat(20_000)}${']}'.repeat(20_000)}}`
    expect((await client.postRaw('/project/query', text)).status).toBe(400)
  })

  it('a field other than the predicates', async () => {
    expectRefusal(await post({ archived: 'yes' }), 400, codes.badRequest, 'archived: expected true or false')
    expectRefusal(
      await post({ page: 'x' }),
      400,
      codes.badRequest,
      'page: expected a number from 1, or the nextPage of an earlier answer',
    )
    expectRefusal(await post({ pageSize: 0 }), 400, codes.badRequest, 'pageSize: must be 1 or more')
    expectRefusal(await post({ projectName: 5 }), 400, codes.badRequest, 'projectName: expected a string')
    const { workspaceName } = service
    expectRefusal(
      await client.post('/project/query', { workspaceName }),
      400,
      codes.projectNameMissing,
      /^projectName: is missing/,
    )
  })
})
