import { afterAll, beforeAll, expect, it } from 'vitest'
import { aPoint } from '../../kit/builders.ts'
import { eventually } from '../../kit/eventually.ts'
import type { TestClient } from '../../kit/http/client.ts'
import { uniqueName } from '../../kit/service.ts'
import { openTwoUsers, type TwoUsers } from '../accounts/two-users.ts'
import { codes, expectRefusal } from '../http-error.ts'

type Value = string | number | boolean | string[] | null
type Answer = {
  total: number
  runs: { experimentKey: string; name: string; state: string; values: Value[] }[]
  groups: { values: Value[]; count: number }[]
  nextCursor?: string
}

let service: TwoUsers
let client: TestClient
beforeAll(async () => {
  service = await openTwoUsers()
  client = service.client
})
afterAll(() => service?.close())

const metadata = (name: string) => ({ source: 'metadata', name })
const parameter = (name: string) => ({ source: 'parameter', name })
const metric = (name: string, more: { context?: string; of?: string } = {}) => ({ source: 'metric', name, ...more })

/** A project with runs of which each has parameters, tags and the points of a metric. */
async function aProject(runs: { parameters?: object; tags?: string[]; points?: (number | string)[]; name?: string }[]) {
  const projectName = uniqueName('runs')
  const keys: string[] = []
  for (const [at, { parameters = {}, tags = [], points = [], name }] of runs.entries()) {
    const experimentKey = await client.createExperiment({ projectName, ...(name && { experimentName: name }) })
    keys.push(experimentKey)
    const write = (path: string, body: object) => client.post(`/write/experiment/${path}`, { experimentKey, ...body })
    await write('set-start-end-time', { startTimeMillis: 1_700_000_000_000 + at, endTimeMillis: 1_700_000_060_000 })
    for (const [parameterName, parameterValue] of Object.entries(parameters)) {
      await write('parameter', { parameterName, parameterValue })
    }
    if (tags.length > 0) await write('tags', { addedTags: tags })
    const metrics = points.map((metricValue, step) =>
      aPoint({ metricValue, step, timestamp: 1_700_000_000_000 + step }),
    )
    if (points.length === 0) continue
    await write('metrics/batch', {
      metrics: [...metrics, aPoint({ metricName: 'acc', context: 'val', metricValue: at })],
    })
    await client.readPoints(experimentKey, 'loss', points.length)
    // Summaries follow their points by a moment.
    await eventually(async () => {
      const { body } = await client.get(`/experiment/metrics/summary?experimentKey=${experimentKey}`)
      expect(body.values).toMatchObject([{ name: 'loss', stepCurrent: points.length - 1 }, { name: 'val_acc' }])
    })
  }
  const project = { workspaceName: service.workspaceName, projectName }
  async function read(fields: Record<string, unknown>, path = '/project/runs'): Promise<Answer> {
    const answer = await client.post(path, { ...project, columns: [], ...fields })
    expect(answer.status, answer.text).toBe(200)
    return answer.body as unknown as Answer
  }
  return { keys, project, read, numbersOf: ({ runs }: Answer) => runs.map((it) => keys.indexOf(it.experimentKey)) }
}

it('runs are rows of the columns asked for, in any order, filtered, searched and grouped', async () => {
  const { keys, read, numbersOf, project } = await aProject([
    { parameters: { rate: 0.1, opt: 'adam' }, tags: ['best', 'B'], points: [3, 1, 2], name: 'Alpha' },
    { parameters: { rate: 0.02, opt: 'sgd' }, points: [0.5, 'NaN'], name: 'beta' },
    { parameters: { rate: 'high', opt: 'adam' }, points: ['Infinity', -1], name: 'gamma' },
    { parameters: { rate: 10 }, points: ['NaN'] },
    {},
  ])
  const columns = [
    metadata('name'),
    metadata('tags'),
    metadata('startTime'),
    metadata('duration'),
    parameter('rate'),
    metric('loss'),
    metric('loss', { of: 'min' }),
    metric('loss', { of: 'max' }),
    metric('acc', { context: 'val' }),
    metric('val_acc'),
    parameter('absent'),
  ]
  const all = await read({ columns })
  expect([all.total, all.nextCursor, numbersOf(all)]).toEqual([5, undefined, [4, 3, 2, 1, 0]])
  expect(all.runs.at(-1)).toEqual({
    experimentKey: keys[0],
    name: 'Alpha',
    state: 'finished',
    values: ['Alpha', ['best', 'B'], 1_700_000_000_000, 60_000, '0.1', 2, 1, 3, 0, 0, null],
  })
  expect(all.runs[2]?.values.slice(5, 8)).toEqual([-1, -1, 'Infinity'])
  expect(all.runs[1]?.values.slice(5, 8)).toEqual(['NaN', 'NaN', 'NaN'])

  // Numbers, then NaN, then text; what has no value is last in both directions.
  const sorted = async (column: object, order: string) => numbersOf(await read({ sort: [{ column, order }] }))
  expect(await sorted(parameter('rate'), 'asc')).toEqual([1, 0, 3, 2, 4])
  expect(await sorted(parameter('rate'), 'desc')).toEqual([2, 3, 0, 1, 4])
  expect(await sorted(metric('loss', { of: 'min' }), 'asc')).toEqual([2, 1, 0, 3, 4])
  expect(await sorted(metric('loss', { of: 'max' }), 'desc')).toEqual([3, 2, 0, 1, 4])
  expect(await sorted(metric('loss'), 'asc')).toEqual([2, 0, 3, 1, 4])
  expect((await sorted(metadata('name'), 'asc')).slice(0, 1)).toEqual([0])
  const twice = [{ column: parameter('opt') }, { column: metadata('startTime'), order: 'desc' }]
  expect(numbersOf(await read({ sort: twice }))).toEqual([2, 0, 1, 4, 3])

  const rules = [{ source: 'params', field: 'opt', operator: '=', value: 'adam' }]
  expect(numbersOf(await read({ predicates: { condition: 'AND', rules } }))).toEqual([2, 0])
  const low = [{ source: 'metrics', field: 'loss', operator: '<', value: 0, type: 'double' }]
  expect(numbersOf(await read({ predicates: low }))).toEqual([2])
  expect(numbersOf(await read({ search: 'ALPH' }))).toEqual([0])
  expect(numbersOf(await read({ search: 'bes' }))).toEqual([0])
  expect(numbersOf(await read({ search: keys[3]?.slice(4, 30) }))).toEqual([3])

  const groupBy = [parameter('opt'), metadata('state')]
  const groups = [
    { values: ['adam', 'finished'], count: 2 },
    { values: ['sgd', 'finished'], count: 1 },
    { values: [null, 'finished'], count: 2 },
  ]
  expect(await read({ groupBy })).toEqual({ total: 5, groups })
  expect(await read({ groupBy, inGroup: ['adam'] })).toEqual({ total: 2, groups: groups.slice(0, 1) })
  const inGroup = await read({ groupBy, inGroup: [null, 'finished'], columns: [parameter('rate')] })
  expect([inGroup.total, numbersOf(inGroup), inGroup.runs.map((it) => it.values)]).toEqual([
    2,
    [4, 3],
    [[null], ['10']],
  ])

  expect((await read({ archived: true })).total).toBe(0)
  await client.get(`/write/experiment/archive?experimentKey=${keys[2]}`)
  expect(numbersOf(await read({ archived: true }))).toEqual([2])
  expect((await read({})).total).toBe(4)

  const { columns: known } = (await client.post('/project/run-columns', project)).body as { columns: unknown[] }
  expect(known).toEqual(
    expect.arrayContaining([
      { ...metadata('duration'), type: 'duration' },
      { ...parameter('rate'), type: 'number' },
      { ...parameter('opt'), type: 'text' },
      { ...metric('acc', { context: 'val' }), type: 'number' },
      { ...metric('loss'), type: 'number' },
    ]),
  )
  expectRefusal(
    await service.stranger.post('/project/runs', { ...project, columns: [] }),
    400,
    codes.projectUnknown,
    /./,
  )
})

it('pages stay in step while runs come: each run is on one page', async () => {
  const { read, numbersOf, keys, project } = await aProject(
    Array.from({ length: 7 }, (_, at) => ({ parameters: { rate: at % 3 } })),
  )
  const sort = [{ column: parameter('rate'), order: 'desc' }]
  const seen: number[] = []
  let cursor: string | undefined
  do {
    const page = await read({ sort, size: 3, cursor })
    seen.push(...numbersOf(page))
    cursor = page.nextCursor
    // It stands before what has been read.
    const experimentKey = await client.createExperiment({ projectName: project.projectName })
    await client.post('/write/experiment/parameter', { experimentKey, parameterName: 'rate', parameterValue: 9 })
  } while (cursor)
  expect(seen).toEqual([5, 2, 4, 1, 6, 3, 0])
  expect(keys).toHaveLength(7)

  // The newest first, as a table begins: by its own way through the store, and so compared with the usual one.
  const newest = { column: { source: 'metadata', name: 'startTime' }, order: 'desc' }
  const byKey = { column: { source: 'metadata', name: 'key' }, order: 'asc' }
  const all = await read({ sort: [newest, byKey], size: 1_000 })
  const paged: string[] = []
  do {
    const page = await read({ size: 4, cursor })
    expect(page.total).toBe(all.total)
    paged.push(...page.runs.map((it) => it.experimentKey))
    cursor = page.nextCursor
  } while (cursor)
  expect(paged).toEqual(all.runs.map((it) => it.experimentKey))
  expect(paged.slice(-7)).toEqual(keys.toReversed())

  const { nextCursor } = await read({ sort, size: 1 })
  const other = await client.post('/project/runs', { ...project, columns: [], cursor: nextCursor })
  expectRefusal(other, 400, codes.badRequest, /^cursor: /)
  const broken = await client.post('/project/runs', { ...project, columns: [], cursor: 'x' })
  expectRefusal(broken, 400, codes.badRequest, /^cursor: /)
  const tooMany = await client.post('/project/runs', { ...project, columns: [], inGroup: ['a'] })
  expectRefusal(tooMany, 400, codes.badRequest, /^inGroup: /)
})

it('a page has fewer runs where their values are long, and its cursor goes on', async () => {
  const value = 'x'.repeat(1_000_000)
  const { read, numbersOf } = await aProject(
    Array.from({ length: 22 }, (_, at) => ({ parameters: { at, ...(at !== 3 && { long: value, other: value }) } })),
  )
  const newestFirst = Array.from({ length: 22 }, (_, at) => 21 - at)
  const columns = [parameter('at'), parameter('long')]
  for (const [sort, expected] of [
    [undefined, newestFirst],
    [[{ column: parameter('at'), order: 'asc' }], newestFirst.toReversed()],
  ] as const) {
    const pages: Answer[] = []
    do pages.push(await read({ columns, sort, size: 100, cursor: pages.at(-1)?.nextCursor }))
    while (pages.at(-1)?.nextCursor)
    expect(pages.flatMap(numbersOf)).toEqual(expected)
    // Of 16 MiB, and a run without such a value beside them.
    expect(pages.map((it) => it.runs.length)).toEqual(sort ? [18, 4] : [17, 5])
    const values = pages.flatMap((it) => it.runs).map((it) => it.values)
    expect(values).toEqual(expected.map((at) => [String(at), at === 3 ? null : value]))
  }
  expect(numbersOf(await read({ columns: [parameter('at')], size: 100 }))).toEqual(newestFirst)
})
