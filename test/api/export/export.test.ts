import { parse as parseCsv } from 'csv-parse/sync'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { openClickHouse } from '../../../store/clickhouse/connection.ts'
import { summarizeStored } from '../../../store/clickhouse/points/store-blocks.ts'
import { openDatabase } from '../../../store/postgres/database.ts'
import { aPoint } from '../../kit/builders.ts'
import { eventually } from '../../kit/eventually.ts'
import type { ReadPoint, TestClient } from '../../kit/http/client.ts'
import { storesWith, uniqueName } from '../../kit/service.ts'
import { openTwoUsers, type TwoUsers } from '../accounts/two-users.ts'
import { codes, expectRefusal } from '../http-error.ts'

type Row = {
  project: string
  experiment_key: string
  experiment_name: string
  metric: string
  context: string | null
  step: string | null
  epoch: string | null
  time: string
  value: string
}
type Manifest = { until: number; experiments: number; rows: number; parts: { part: string; rows: number }[] }

let service: TwoUsers
let client: TestClient
beforeAll(async () => {
  service = await openTwoUsers()
  client = service.client
})
afterAll(() => service?.close())

const oddName = 'a "quoted", name\nof two lines = äöü \\ \''
const oddPoints = [
  ...['NaN', 'Infinity', '-Infinity', '-0', 5e-324, 1.7976931348623157e308, 0.1, 123].map((metricValue, step) =>
    aPoint({ metricValue, step, timestamp: 1_700_000_000_000 + step }),
  ),
  aPoint({ step: '9007199254740993', epoch: 3 }),
  aPoint({ step: '-9223372036854775808' }),
  { metricName: 'loss', metricValue: 2, timestamp: 1_700_000_000_100 },
  aPoint({ metricName: oddName, context: 'in, "context"\n', metricValue: 0.25 }),
  aPoint({ metricName: oddName, metricValue: 0.5 }),
]

/** A project whose runs have these points. */
async function aProject(runs: object[][], names: string[] = []) {
  const projectName = uniqueName('export')
  const keys: string[] = []
  for (const [at, metrics] of runs.entries()) {
    const experimentKey = await client.createExperiment({ projectName, experimentName: names[at] ?? `run ${at}` })
    keys.push(experimentKey)
    await client.post('/write/experiment/metrics/batch', { experimentKey, metrics })
  }
  const project = { workspaceName: service.workspaceName, projectName }
  const read = (what: string, more: Record<string, string> = {}, who = client) =>
    who.get(`/export/${what}?${new URLSearchParams({ ...project, ...more })}`)
  const readRows = async (what: string, more: Record<string, string> = {}) => {
    const answer = await read(what, { format: 'csv', ...more })
    expect(answer.status, answer.text).toBe(200)
    return parseRows(answer.text)
  }
  await eventually(async () => {
    expect(await readRows('metrics')).toHaveLength(runs.flat().length)
  })
  /** Once everything is in it. */
  const readManifest = (what: string, rows: number, more: Record<string, string> = {}) =>
    eventually(async () => {
      const { body } = await read('manifest', { what, ...more })
      expect(body).toMatchObject({ rows })
      return body as unknown as Manifest
    })
  return { keys, project, read, readRows, readManifest }
}

const parseRows = (csv: string): Row[] =>
  parseCsv(csv, { columns: true, cast: (value, { quoting }) => (value === '' && !quoting ? null : value) })

/** A row as the read of one experiment has it. */
const toReadPoint = (row: Row) => ({
  metricName: row.metric,
  metricValue: toBits(row.value),
  timestamp: Date.parse(row.time),
  step: row.step,
  epoch: row.epoch,
  runContext: row.context,
})

/** Steps as text: JSON.parse would round them. */
const readSteps = (text: string) =>
  (JSON.parse(text.replaceAll(/"(step|epoch)":(-?\d+)/g, '"$1":"$2"')) as { metrics: (ReadPoint & { step: string })[] })
    .metrics

function toBits(value: string): string {
  const number = Number(value.replace(/^(-?)inf$/, '$1Infinity'))
  const bytes = Buffer.alloc(8)
  bytes.writeDoubleBE(number)
  return bytes.toString('hex')
}

it('every point is exported as it is read: all digits, NaN, infinities, -0, odd names and absent steps', async () => {
  const { keys, project, readRows, read } = await aProject([oddPoints, [aPoint()]], ['a "run", with = and\na line'])
  const rows = await readRows('metrics')
  expect(rows.filter((it) => it.experiment_key === keys[0])).toHaveLength(oddPoints.length)
  for (const [at, experimentKey] of keys.entries()) {
    const all = await client.get(`/experiment/metrics/get-all?experimentKey=${experimentKey}`)
    const points = readSteps(all.text).map((it) => ({ ...it, metricValue: toBits(it.metricValue) }))
    const exported = rows.filter((it) => it.experiment_key === experimentKey)
    const text = (it: unknown) => JSON.stringify(it)
    expect(exported.map(toReadPoint).map(text).toSorted()).toEqual(points.map(text).toSorted())
    const names = new Set(exported.map((it) => `${it.project} ${it.experiment_name}`))
    expect([...names]).toEqual([`${project.projectName} ${at === 0 ? 'a "run", with = and\na line' : 'run 1'}`])
  }
  // The experiments in the order in which they were made.
  expect([...new Set(rows.map((it) => it.experiment_key))]).toEqual(keys)

  const lines = (await read('metrics', { format: 'jsonl' })).text.trimEnd().split('\n')
  const values = lines.map((it) => (JSON.parse(it) as { value: number | string }).value)
  expect(values.map((it) => (Object.is(it, -0) ? '-0' : String(it))).map(toBits)).toEqual(
    rows.map((it) => toBits(it.value)),
  )
})

it('an export of experiments has these only, and refuses those of others', async () => {
  const { keys, read, readRows } = await aProject([[aPoint()], [aPoint()], [aPoint()]])
  const only = (experimentKeys: string) =>
    client.get(`/export/metrics?${new URLSearchParams({ experimentKeys, format: 'csv' })}`)
  const rows = parseRows((await only(`${keys[2]},${keys[0]}`)).text)
  expect(rows.map((it) => it.experiment_key)).toEqual([keys[0], keys[2]])
  const foreign = await service.stranger.get(`/export/metrics?experimentKeys=${keys[0]}`)
  expectRefusal(foreign, 400, codes.experimentUnknown, /no experiment/)
  expectRefusal(await read('metrics', {}, service.stranger), 400, codes.projectUnknown, /no such project/)

  await client.get(`/write/experiment/delete?experimentKey=${keys[1]}`)
  expect((await readRows('metrics')).map((it) => it.experiment_key)).toEqual([keys[0], keys[2]])
})

it('a query selects the experiments of a project', async () => {
  const { keys, readRows, read } = await aProject(
    [[aPoint({ metricValue: 1 })], [aPoint({ metricValue: 2 })]],
    ['a b', 'c'],
  )
  for (const it of keys) await client.waitForSummary(it, 'loss')
  const rows = await readRows('metrics', { query: 'metric.loss > 1 or name = "a"' })
  expect(rows.map((it) => it.experiment_key)).toEqual([keys[1]])
  expect((await readRows('metrics', { query: 'name = "a b"' })).map((it) => it.experiment_key)).toEqual([keys[0]])
  const rule = (name: string) =>
    JSON.stringify({ column: 'experimentName--metadata', operator: '=', value: name, type: 'string' })
  const both = await readRows('metrics', { query: 'metric.loss > 0', predicates: rule('c') })
  expect(both.map((it) => it.experiment_key)).toEqual([keys[1]])
  expect(await readRows('metrics', { query: 'metric.loss = 1', predicates: rule('c') })).toEqual([])
  expectRefusal(await read('metrics', { predicates: '{' }), 400, codes.badRequest, 'predicates: expected JSON')
  const manifest = await read('manifest', { what: 'metrics', query: 'nothing' })
  expect(manifest.body).toMatchObject({ experiments: 0, rows: 0 })
  expectRefusal(
    await read('metrics', { query: 'metric.loss >' }),
    400,
    codes.badRequest,
    'query, character 14: expected a value after >, such as 0.1 or "adam"',
  )
  const either = await read('metrics', { query: 'a', experimentKeys: keys[0] as string })
  expectRefusal(either, 400, codes.badRequest, 'query: is for a project, not for experimentKeys')
})

it('a project without points, or without experiments, is a file without rows', async () => {
  const { read } = await aProject([[aPoint()]])
  const empty = await read('system-metrics', { format: 'csv' })
  expect(empty.text.trim()).toBe(
    '"project","experiment_key","experiment_name","metric","context","step","epoch","time","value"',
  )
  const projectName = uniqueName('empty')
  await client.post('/write/project/create', { workspaceName: service.workspaceName, projectName, isPublic: false })
  const none = await client.get(
    `/export/metrics?${new URLSearchParams({ workspaceName: service.workspaceName, projectName, format: 'csv' })}`,
  )
  expect(none.text.trim()).toBe(empty.text.trim())
})

it('the parts of a manifest are the whole export, each with the rows that the manifest says', async () => {
  const metrics = (names: number) =>
    Array.from({ length: names * 100 }, (_, at) => aPoint({ metricName: `m${at % names}`, step: at, metricValue: at }))
  const all = [metrics(1), metrics(5), [], metrics(2)]
  const { readManifest, read, readRows, keys } = await aProject(all)
  const manifest = await readManifest('metrics', 800, { rowsOfPart: '250' })
  expect(manifest.parts.map((it) => it.rows)).toEqual([300, 200, 300])
  const whole = (await read('metrics', { format: 'jsonl' })).text

  // What arrives later is in no part.
  await client.post('/write/experiment/metrics/batch', { experimentKey: keys[0], metrics: [aPoint({ step: 5 })] })
  await eventually(async () => expect(await readRows('metrics')).toHaveLength(801))
  let joined = ''
  for (const { part, rows } of manifest.parts) {
    const answer = await read('metrics', { format: 'jsonl', part })
    expect(answer.headers.get('x-export-rows')).toBe(String(rows))
    expect(answer.text.trimEnd().split('\n')).toHaveLength(rows)
    joined += answer.text
  }
  expect(joined).toBe(whole)
  expectRefusal(
    await read('metrics', { part: 'x' }),
    400,
    codes.badRequest,
    'part: expected a part of /export/manifest',
  )
})

it('output is exported as it was sent', async () => {
  const { keys, read, readManifest } = await aProject([[aPoint()]])
  const [experimentKey] = keys
  const outputLines = ['first, "line"', 'zweite ü', ''].map((output, offset) => ({
    output,
    offset,
    stderr: offset === 1,
    timestamp: 1_700_000_000_000 + offset,
  }))
  await client.post('/write/experiment/output', { experimentKey, outputLines })
  const { parts } = await readManifest('output', 3)
  expect(parts).toHaveLength(1)
  const { text } = await read('output', { format: 'jsonl', part: String(parts[0]?.part) })
  const rows = text
    .trimEnd()
    .split('\n')
    .map((it) => JSON.parse(it))
  expect(rows.map((it) => [it.output, it.offset, it.stderr])).toEqual([
    ['first, "line"', 0, false],
    ['zweite ü', 1, true],
    ['', 2, false],
  ])
})

/** An experiment with more points than lie on the way between the stores and a client who does not read. */
async function aLongSeries() {
  const { keys, project } = await aProject([[aPoint()]])
  const { clickhouseUrl, postgresUrl } = storesWith('postgres')
  const database = openDatabase({ url: postgresUrl, connectionsMax: 1, onError: () => undefined })
  const found = await database.row<{ id: bigint }>('SELECT id FROM experiments WHERE key = $1', [keys[0]])
  await database.close()
  const clickhouse = openClickHouse({ url: clickhouseUrl })
  await clickhouse.command(
    `INSERT INTO ${clickhouse.database}.points (experiment_id, metric, context, step, request_hi, request_lo, place, value_bits)
     SELECT ${found?.id}, 'long', '', number, 1, 1, number, number FROM numbers(400000)`,
  )
  await summarizeStored(clickhouse, `experiment_id = ${found?.id}`)
  const address = `${service.url}/api/rest/v2/export/metrics?${new URLSearchParams({ ...project, format: 'jsonl' })}`
  return {
    clickhouse,
    /** Begins an export, and reads its first bytes only. */
    async begin(signal?: AbortSignal) {
      const answer = await fetch(address, { headers: { authorization: service.apiKey }, ...(signal && { signal }) })
      expect(answer.status).toBe(200)
      const reader = (answer.body as ReadableStream<Uint8Array>).getReader()
      const { value } = await reader.read()
      expect(value?.length).toBeGreaterThan(0)
      return reader
    },
    listQueries: () =>
      clickhouse.rows<{ id: string }>(
        `SELECT query_id AS id FROM system.processes
         WHERE position(query, 'IN (${found?.id})') > 0 AND position(query, 'FORMAT JSONEachRow') > 0 AND position(query, 'processes') = 0`,
      ),
  }
}

it('an export goes on for as long as its client is there: then its query ends, and the slot is free', async () => {
  const { begin, clickhouse, listQueries } = await aLongSeries()
  const { read } = await aProject([[aPoint()]])
  const leave = new AbortController()
  await begin(leave.signal)
  expect(await listQueries()).toHaveLength(1)
  const refused = await read('metrics')
  expect([refused.status, refused.headers.get('retry-after')]).toEqual([429, '2'])
  const ofStranger = { workspaceName: service.stranger.workspaceName, projectName: uniqueName('theirs') }
  await service.stranger.createExperiment({ projectName: ofStranger.projectName })
  expect((await service.stranger.get(`/export/metrics?${new URLSearchParams(ofStranger)}`)).status).toBe(200)

  leave.abort()
  await eventually(async () => {
    expect(await listQueries()).toEqual([])
    expect((await read('metrics')).status).toBe(200)
  })
  await clickhouse.close()
})

it('an export that fails in its middle is cut off: its client hears of it', async () => {
  const { begin, clickhouse, listQueries } = await aLongSeries()
  const reader = await begin()
  const [query] = await listQueries()
  await clickhouse.command(`KILL QUERY WHERE query_id = '${query?.id}' ASYNC`)
  const readAll = async () => {
    while (!(await reader.read()).done);
  }
  await expect(readAll()).rejects.toThrow('terminated')
  await clickhouse.close()
})

it('runs are exported as a wide table, in every page the same columns', async () => {
  const points = [3, -1, 'NaN', '-Infinity', 2].map((metricValue, step) =>
    aPoint({ metricValue, step, timestamp: 1_700_000_000_000 + step }),
  )
  const { keys, read } = await aProject([
    [...points, aPoint({ metricName: 'odd "`=,', context: 'val', metricValue: '-0' })],
    [aPoint({ metricName: 'other' })],
  ])
  const [experimentKey] = keys
  await client.post('/write/experiment/parameter', {
    experimentKey,
    parameterName: 'a "`, \\b',
    parameterValue: 'x,\n"y"',
  })
  await client.post('/write/experiment/tags', { experimentKey, addedTags: ['best', 'it\'s "b"'] })
  const rows = await eventually(async () => {
    const answer = await read('runs', { format: 'jsonl' })
    expect(answer.status, answer.text).toBe(200)
    expect(answer.headers.get('x-export-rows')).toBe('2')
    expect(answer.text).toContain('metrics.other.max')
    return answer.text
      .trimEnd()
      .split('\n')
      .map((it) => JSON.parse(it))
  })
  expect(rows.map((it) => it.experiment_key)).toEqual(keys)
  expect(rows[0]).toMatchObject({
    experiment_name: 'run 0',
    state: expect.stringMatching(/running|finished/),
    archived: false,
    tags: ['best', 'it\'s "b"'],
    'params.a "`, \\b': 'x,\n"y"',
    'metrics.loss.last': 2,
    'metrics.loss.min': '-inf',
    'metrics.loss.max': 3,
    'metrics.val_odd "`=,.last': -0,
    'metrics.other.last': null,
  })
  expect(rows[1]).toMatchObject({ tags: [], 'params.a "`, \\b': null, 'metrics.other.last': 0.5 })
  expect(Object.keys(rows[0])).toEqual(Object.keys(rows[1]))
})
