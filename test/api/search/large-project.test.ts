import { afterAll, beforeAll, expect, it } from 'vitest'
import { openClickHouse } from '../../../store/clickhouse/connection.ts'
import { summarizeStored } from '../../../store/clickhouse/points/store-blocks.ts'
import { openDatabase } from '../../../store/postgres/database.ts'
import { openTestService, storesWith, uniqueName } from '../../kit/service.ts'

/** More runs than come first in ClickHouse for a page of ten: the rows are made inside the stores. */
const count = 4_000
const pageSize = 10

type Found = { experimentKey: string; name: string }

let service: Awaited<ReturnType<typeof openTestService>>
let project: { workspaceName: string; projectName: string }

/** What a run has of the metric: some have nothing, some NaN, many the same. */
function lossOf(at: number): number | undefined {
  if (at % 10 === 3) return undefined
  if (at % 50 === 7) return Number.NaN
  if (at % 90 === 1) return at % 180 === 1 ? Number.NEGATIVE_INFINITY : Number.POSITIVE_INFINITY
  return at % 3 === 0 ? Math.floor(at / 400) : ((at * 7919) % 100_003) / 1_000 - 20
}

const nameOf = (at: number) => `run-${at}`

beforeAll(async () => {
  service = await openTestService()
  project = { workspaceName: service.workspaceName, projectName: uniqueName('large') }
  const key = await service.client.createExperiment({ projectName: project.projectName, experimentName: nameOf(0) })
  const { clickhouseUrl, postgresUrl } = storesWith('postgres')
  const database = openDatabase({ url: postgresUrl, connectionsMax: 1, onError: () => undefined })
  const made = await database.rows<{ id: bigint }>(
    `WITH made AS (INSERT INTO experiments (key, project_id, user_id, name, start_time_ms, active_at_ms)
       SELECT md5(key || i), project_id, user_id, 'run-' || i, start_time_ms + i, active_at_ms
       FROM experiments CROSS JOIN generate_series(1, $2::int) AS i WHERE key = $1 ORDER BY i RETURNING id)
     SELECT id FROM experiments WHERE key = $1 UNION ALL SELECT id FROM made ORDER BY id`,
    [key, count - 1],
  )
  await database.close()
  const clickhouse = openClickHouse({ url: clickhouseUrl })
  const values = made.flatMap(({ id }, at) => {
    const value = lossOf(at)
    const text = Number.isFinite(value) ? value : String(value).replace('Infinity', 'inf').toLowerCase()
    return value === undefined ? [] : [`(${id}, 'loss', '', 1, 1700000000000, 1, 1, ${at}, 5, ${text})`]
  })
  await clickhouse.command(
    `INSERT INTO ${clickhouse.database}.points
       (experiment_id, metric, context, step, timestamp, request_hi, request_lo, place, present, value) VALUES ${values.join(', ')}`,
    { max_query_size: 10_000_000 },
  )
  await summarizeStored(clickhouse, `experiment_id IN (${made.map((it) => it.id).join(', ')})`)
  await clickhouse.close()
}, 240_000)
afterAll(() => service?.close())

async function ask(fields: object) {
  const { status, body, text } = await service.client.post('/project/runs', { ...project, columns: [], ...fields })
  expect(status, text).toBe(200)
  return body as { total: number; runs: Found[]; nextCursor?: string }
}

/** The runs in the order of the metric: NaN behind all numbers, and before them downwards; those without it last; the newest first. */
function sorted(order: 'asc' | 'desc', isMeant: (at: number) => boolean): string[] {
  const rank = (value: number | undefined) => (value === undefined ? 2 : Number.isNaN(value) ? 1 : 0)
  const sign = order === 'asc' ? 1 : -1
  const compare = (a: number, b: number) => {
    const [left, right] = [lossOf(a), lossOf(b)]
    if (rank(left) === 2 || rank(right) === 2) return rank(left) - rank(right)
    if (rank(left) !== rank(right)) return sign * (rank(left) - rank(right))
    return (left as number) < (right as number) ? -sign : (left as number) > (right as number) ? sign : 0
  }
  const all = Array.from({ length: count }, (_, at) => at).filter(isMeant)
  return all.toSorted((a, b) => compare(a, b) || b - a).map(nameOf)
}

it.each<['asc' | 'desc', string, (at: number) => boolean]>([
  ['asc', '', () => true],
  ['desc', '', () => true],
  ['asc', 'name ~ "[05]$"', (at) => at % 5 === 0],
  // Of those that come first none is meant, or too few.
  ['asc', 'metric.loss > 75', (at) => (lossOf(at) ?? 0) > 75],
  ['desc', 'metric.loss < -15', (at) => (lossOf(at) ?? 0) < -15],
  ['asc', 'not has metric.loss', (at) => lossOf(at) === undefined],
  ['desc', 'name in ("run-3", "run-13", "run-4", "run-6")', (at) => [3, 13, 4, 6].includes(at)],
])('%s by a metric, %j: the pages are those of all values', async (order, query, isMeant) => {
  const sort = [{ column: { source: 'metric', name: 'loss' }, order }]
  const expected = sorted(order, isMeant)
  const found: string[] = []
  let cursor: string | undefined
  do {
    const page = await ask({ query, sort, size: pageSize, ...(cursor && { cursor }) })
    expect(page.total).toBe(expected.length)
    found.push(...page.runs.map((it) => it.name))
    cursor = page.nextCursor
  } while (cursor !== undefined && found.length < 15 * pageSize)
  expect(found).toEqual(expected.slice(0, found.length))
  expect(found.length).toBeGreaterThanOrEqual(Math.min(expected.length, 15 * pageSize))

  // From the middle of everything, and to its end.
  const all: string[] = []
  for (let next: string | undefined = ''; next !== undefined; ) {
    const page: Awaited<ReturnType<typeof ask>> = await ask({ query, sort, size: 1_000, ...(next && { cursor: next }) })
    all.push(...page.runs.map((it) => it.name))
    next = page.nextCursor
  }
  expect(all).toEqual(expected)
})

it('a query of 10,000 characters is read and searched, also in the URL of an export', async () => {
  const tests = Array.from({ length: 99 }, (_, at) => `name = "run-${at} ${'ä'.repeat(70)}"`)
  const query = `${[...tests, 'name = "run-7"'].join(' or ')}${' '.repeat(10_000)}`.slice(0, 10_000)
  expect((await ask({ query })).runs.map((it) => it.name)).toEqual(['run-7'])
  const search = new URLSearchParams({ ...project, query, format: 'csv' })
  const { status, text } = await service.client.get(`/export/runs?${search}`)
  expect(status, text).toBe(200)
  expect(text).toContain('"run-7"')
})

it.each([
  `name = "'; DROP TABLE experiments; --"`,
  `param."x' OR 1=1 --" = 1`,
  'metric."{n0:Float64}" > 0',
  `metric."') OR 1=1 --" < 1`,
  'param."$1::text" ~ "(a+)+$"',
  `tag in ("a', 'b", "\\\\", "%", "{1,2}")`,
  `metric."\\u0000" = 1 or name = "${'\\'.repeat(50)}"`,
])('%j is only a text that no run has', async (query) => {
  expect(await ask({ query })).toMatchObject({ total: 0, runs: [] })
})

it('a regular expression costs no more than its text, and one that would is refused', async () => {
  expect((await ask({ query: 'name ~ "^(r*)*(u?n*)+-(1+)+$"' })).total).toBe(4)
  for (const pattern of ['(.{30}){40}x', '.{900}'.repeat(3)]) {
    const query = `name ~ "${pattern}"`
    const { body } = await service.client.post('/project/runs', { ...project, columns: [], query })
    expect(body.msg).toMatch(/^query, character 8: .* is (too large a pattern|no regular expression of RE2)/)
  }
  const [experimentKey] = (await ask({ query: 'name = "run-0"' })).runs.map((it) => it.experimentKey)
  const parameterValue = 'a'.repeat(1_000_000)
  await service.client.post('/write/experiment/parameter', { experimentKey, parameterName: 'long', parameterValue })
  expect((await ask({ query: 'param.long ~ "^(a|b)*$"' })).runs.map((it) => it.name)).toEqual(['run-0'])
  const { status, body } = await service.client.post('/project/runs', {
    ...{ ...project, columns: [] },
    query: 'param.long ~ "(a|b){500}c?d"',
  })
  expect([status, body.msg]).toEqual([
    400,
    expect.stringMatching(/^query: a value has 1000000 characters, too many for/),
  ])
})
