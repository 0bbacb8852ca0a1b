import { type IncomingMessage, request } from 'node:http'
import { buffer } from 'node:stream/consumers'
import {
  brotliCompressSync,
  brotliDecompressSync,
  constants,
  gunzipSync,
  gzipSync,
  zstdCompressSync,
  zstdDecompressSync,
} from 'node:zlib'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { parseExactJson } from '../../../http/body/exact-json.ts'
import { openClickHouse } from '../../../store/clickhouse/connection.ts'
import { summarizeStored } from '../../../store/clickhouse/points/store-blocks.ts'
import { openDatabase } from '../../../store/postgres/database.ts'
import { aPoint } from '../../kit/builders.ts'
import { createClient, type TestClient } from '../../kit/http/client.ts'
import { storesWith } from '../../kit/service.ts'
import { openTwoUsers, type TwoUsers } from '../accounts/two-users.ts'
import { codes, expectRefusal } from '../http-error.ts'

const chartTooLarge = 8000045

type Series = {
  metricName: string
  runContext: string | null
  values: (number | string)[]
  steps: (number | bigint | null)[]
  epochs: (number | null)[]
  timestamps: number[]
  durations: number[]
}
type Charted = { experimentKey: string; params: Record<string, string>; metrics: Series[]; empty: boolean }
type Chart = { experiments: Record<string, Charted>; empty: boolean }

let service: TwoUsers
let client: TestClient
beforeAll(async () => {
  service = await openTwoUsers()
  client = service.client
})
afterAll(() => service?.close())

const post = (targetedExperiments: string[], fields: Record<string, unknown> = {}, by = client) =>
  by.post('/experiments/multi-metric-chart', { targetedExperiments, ...fields })

async function chart(keys: string[], fields: Record<string, unknown>, by = client): Promise<Chart> {
  const answer = await post(keys, fields, by)
  expect(answer.status, answer.text).toBe(200)
  return parseExactJson(answer.text) as Chart
}

async function log(experimentKey: string, points: ReturnType<typeof aPoint>[]) {
  for (let from = 0; from < points.length; from += 10_000) {
    const metrics = points.slice(from, from + 10_000)
    expect((await client.post('/write/experiment/metrics/batch', { experimentKey, metrics })).body.rejected).toEqual([])
  }
}

/** An experiment with points, all of them readable. */
async function anExperiment(points: ReturnType<typeof aPoint>[], fields: Record<string, unknown> = {}) {
  const experimentKey = await client.createExperiment(fields)
  await log(experimentKey, points)
  for (const name of new Set(points.map((it) => it.metricName))) {
    const count = points.filter((it) => it.metricName === name).length
    await client.readPoints(experimentKey, name, count)
  }
  return experimentKey
}

/** Just enough of a series to compare. */
const pairs = ({ steps, values }: Series) => steps.map((step, at) => [step, values[at]])

it('returns metrics and parameters of many experiments, with all fields of charts', async () => {
  const one = await anExperiment([
    aPoint({ step: 2, metricValue: 0.25, epoch: 1 }),
    aPoint({ step: 1, metricValue: 0.5 }),
    aPoint({ metricName: 'acc', metricValue: 'NaN', step: undefined }),
  ])
  const two = await anExperiment([aPoint({ metricValue: '-Infinity' })])
  for (const [parameterName, parameterValue] of Object.entries({ rate: 0.1, __proto__x: 'odd', depth: 3 })) {
    await client.post('/write/experiment/parameter', { experimentKey: one, parameterName, parameterValue })
  }
  const { startTimeMillis } = (await client.get(`/experiment/metadata?experimentKey=${one}`)).body as {
    startTimeMillis: number
  }

  const { experiments, empty } = await chart([one, two], {
    metrics: ['loss', 'acc', 'absent'],
    params: ['rate', 'absent'],
  })

  expect(empty).toBe(false)
  const at = 1_700_000_000_000
  expect(experiments[one]).toEqual({
    experimentKey: one,
    params: { rate: '0.1' },
    empty: false,
    metrics: [
      {
        metricName: 'loss',
        runContext: null,
        values: [0.5, 0.25],
        steps: [1, 2],
        epochs: [null, 1],
        timestamps: [at, at],
        durations: [at - startTimeMillis, at - startTimeMillis],
      },
      expect.objectContaining({ metricName: 'acc', values: ['NaN'], steps: [null], epochs: [null] }),
    ],
  })
  expect(experiments[two]?.metrics.map(pairs)).toEqual([[[1, '-Infinity']]])
  expect(experiments[two]?.params).toEqual({})
})

it('keeps every bit of values, and every digit of steps', async () => {
  const values = ['-0', '5e-324', '1.7976931348623157e308', '0.1', '1e22', '123456789012345680']
  const points = values.map((metricValue, step) => aPoint({ metricValue, step }))
  const key = await anExperiment([
    ...points,
    aPoint({ step: '9223372036854775807' }),
    aPoint({ step: '-9223372036854775808' }),
  ])
  const { text } = await post([key], { metrics: ['loss'], fetchFull: true })
  const [series] = (parseExactJson(text) as Chart).experiments[key]?.metrics ?? []
  expect(series?.steps).toEqual([-(2n ** 63n), 0, 1, 2, 3, 4, 5, 2n ** 63n - 1n])
  expect(
    series?.values
      .slice(1, 7)
      .map(Number)
      .map((it) => (Object.is(it, -0) ? '-0' : it)),
  ).toEqual(['-0', ...values.slice(1).map(Number)])
  expect((await chart([key], { metrics: ['loss'] })).experiments[key]?.metrics).toEqual([series])
})

it('finds a metric in all contexts by its name, and in one by its summary name', async () => {
  const key = await anExperiment([
    aPoint({ metricValue: 1 }),
    aPoint({ metricValue: 2, context: 'train' }),
    aPoint({ metricName: 'b_c', metricValue: 3, context: 'a' }),
    aPoint({ metricName: `o'd"d\\\t\n`, metricValue: 4 }),
  ])
  const found = async (...metrics: string[]) =>
    (await chart([key], { metrics })).experiments[key]?.metrics.map((it) => [
      it.metricName,
      it.runContext,
      it.values[0],
    ])
  expect(await found('loss')).toEqual([
    ['loss', null, 1],
    ['loss', 'train', 2],
  ])
  expect(await found('train_loss')).toEqual([['train_loss', 'train', 2]])
  expect(await found('train_loss', 'loss')).toEqual([
    ['train_loss', 'train', 2],
    ['loss', null, 1],
    ['loss', 'train', 2],
  ])
  expect(await found('a_b_c', 'b_c')).toEqual([
    ['a_b_c', 'a', 3],
    ['b_c', 'a', 3],
  ])
  expect(await found(`o'd"d\\\t\n`)).toEqual([[`o'd"d\\\t\n`, null, 4]])
})

it('shows resource usage under its names too', async () => {
  const experimentKey = await client.createExperiment()
  await client.post('/write/experiment/ram-metrics', { experimentKey, totalRam: 8, usedRam: 5, step: 1 })
  await client.readPoints(experimentKey, 'sys.ram.used', 1)
  const { experiments } = await chart([experimentKey], { metrics: ['sys.ram.used'], fetchFull: true })
  expect(experiments[experimentKey]?.metrics.map(pairs)).toEqual([[[1, 5]]])
})

describe('a long metric', () => {
  const length = 20_000
  const points = Array.from({ length }, (_, step) => aPoint({ step, metricValue: Math.sin(step / 3_000) }))
  Object.assign(points[7_777] as object, { metricValue: 1_000 })
  Object.assign(points[12_345] as object, { metricValue: -1_000 })
  Object.assign(points[500] as object, { metricValue: 'NaN' })

  it('is downsampled to 500 points with its extremes and NaN, and is whole with fetchFull', async () => {
    const key = await anExperiment([...points, aPoint({ metricName: 'short', metricValue: 1 })])
    const [thinned, short] = (await chart([key], { metrics: ['loss', 'short'] })).experiments[key]?.metrics ?? []
    expect(thinned?.values.length).toBeLessThanOrEqual(500)
    expect(thinned?.values.length).toBeGreaterThan(300)
    const shown = new Map(pairs(thinned as Series) as [number, number | string][])
    expect([shown.get(7_777), shown.get(12_345), shown.get(500)]).toEqual([1_000, -1_000, 'NaN'])
    for (const [step, value] of shown) expect(String(points[step]?.metricValue)).toBe(String(value))
    expect(thinned?.steps).toEqual([...shown.keys()].toSorted((a, b) => a - b))
    expect(short?.values).toEqual([1])

    const [whole] = (await chart([key], { metrics: ['loss'], fetchFull: true })).experiments[key]?.metrics ?? []
    expect(pairs(whole as Series)).toEqual(points.map((it) => [it.step, it.metricValue]))
  })

  it('without steps is downsampled by time, and one of 500 points is whole', async () => {
    const withTimes = Array.from({ length: 2_000 }, (_, at) =>
      aPoint({ step: undefined, timestamp: 1_700_000_000_000 + at, metricValue: at }),
    )
    const flat = Array.from({ length: 500 }, () => aPoint({ metricName: 'flat', metricValue: 1 }))
    const key = await anExperiment([...withTimes, ...flat])
    const [byTime, all] = (await chart([key], { metrics: ['loss', 'flat'] })).experiments[key]?.metrics ?? []
    expect(byTime?.values.length).toBeLessThanOrEqual(500)
    expect([byTime?.values[0], byTime?.values.at(-1)]).toEqual([0, 1_999])
    expect(byTime?.timestamps).toEqual(byTime?.timestamps.toSorted((a, b) => a - b))
    expect(all?.values).toEqual(Array(500).fill(1))
  })
})

it('with independentMetrics false returns only steps at which every metric has a value', async () => {
  const many = Array.from({ length: 3_000 }, (_, step) => aPoint({ step, metricValue: step }))
  const key = await anExperiment([
    ...many,
    ...many.filter((it) => Number(it.step) % 2 === 0).map((it) => ({ ...it, metricName: 'acc' })),
    aPoint({ metricName: 'acc', step: 5_000 }),
    aPoint({ metricName: 'acc', step: undefined }),
  ])
  const fields = { metrics: ['loss', 'acc'], independentMetrics: false }
  const [loss, acc] = (await chart([key], { ...fields, fetchFull: true })).experiments[key]?.metrics ?? []
  expect(loss?.steps).toEqual(Array.from({ length: 1_500 }, (_, at) => at * 2))
  expect(acc?.steps).toEqual(loss?.steps)
  const [thinLoss, thinAcc] = (await chart([key], fields)).experiments[key]?.metrics ?? []
  expect(thinLoss?.steps).toHaveLength(500)
  expect(thinAcc?.steps).toEqual(thinLoss?.steps)
  expect((await chart([key], { metrics: ['loss', 'absent'], independentMetrics: false })).empty).toBe(true)
})

it('returns nothing for experiments that are absent, deleted, foreign or without the metrics', async () => {
  const key = await anExperiment([aPoint()])
  const gone = await anExperiment([aPoint()])
  await client.get(`/write/experiment/delete?experimentKey=${gone}`)
  const nothing = '{"experiments":{},"empty":true}'
  expect((await post([key], { metrics: ['loss'] }, service.stranger)).text).toBe(nothing)
  expect((await post(['0'.repeat(32)], { metrics: ['loss'] })).text).toBe(nothing)
  expect((await post([gone], { metrics: ['loss'] })).text).toBe(nothing)
  expect((await post([], { metrics: ['loss'] })).text).toBe(nothing)
  expect((await post([key])).text).toBe(nothing)
  expect((await post([key], { metrics: null, params: null, fetchFull: null })).text).toBe(nothing)
  expect((await post([key], { metrics: ['absent'], params: ['absent'] })).text).toBe(nothing)
  const { experiments } = await chart([key, gone, '0'.repeat(32), key], { metrics: ['loss', 'loss'] })
  expect(Object.keys(experiments)).toEqual([key])
  expect(experiments[key]?.metrics).toHaveLength(1)
})

it('can also be read with the share code of the project', async () => {
  const key = await anExperiment([aPoint()])
  const { projectId } = (await client.get(`/experiment/metadata?experimentKey=${key}`)).body
  const { shareCode } = (await client.get(`/write/project/add-share-link?projectId=${projectId}`)).body
  const visitor = createClient(service.url, { apiKey: '', workspaceName: '' })
  const answer = await visitor.post(`/experiments/multi-metric-chart?shareCode=${shareCode}`, {
    targetedExperiments: [key],
    metrics: ['loss'],
  })
  expect(Object.keys(answer.body.experiments as object)).toEqual([key])
})

it('rejects more points than fit into an answer, and returns them downsampled', async () => {
  const key = await anExperiment([aPoint({ step: 0 })])
  const { postgresUrl, clickhouseUrl } = storesWith('postgres')
  const database = openDatabase({ url: postgresUrl, connectionsMax: 1, onError: () => undefined })
  const row = await database.row<{ id: bigint }>('SELECT id FROM experiments WHERE key = $1', [key])
  await database.close()
  const clickhouse = openClickHouse({ url: clickhouseUrl })
  await clickhouse.command(
    `INSERT INTO ${clickhouse.database}.points (experiment_id, metric, step, present, value)
     SELECT ${row?.id}, 'loss', number + 1, 1, sin(number) FROM numbers(1000000)`,
  )
  await summarizeStored(clickhouse, `experiment_id = ${row?.id} AND step > 0`)
  await clickhouse.close()

  const refused = await post([key], { metrics: ['loss'], fetchFull: true })
  expectRefusal(refused, 400, chartTooLarge, /^fetchFull: the metrics have 1000001 points together, of which 1000000/)
  const [thinned] = (await chart([key], { metrics: ['loss'] })).experiments[key]?.metrics ?? []
  expect(thinned?.values).toHaveLength(500)
})

it('names invalid fields, and rejects requests that are too large', async () => {
  const keys = (count: number) => Array.from({ length: count }, (_, at) => `key${at}`)
  const refusals: [string[], Record<string, unknown>, number, string | RegExp][] = [
    [keys(1_001), {}, codes.badRequest, 'targetedExperiments: must have 1000 entries or fewer'],
    [['a', 5 as never], {}, codes.badRequest, 'targetedExperiments[1]: expected a string'],
    [null as never, {}, codes.badRequest, 'targetedExperiments: is missing'],
    [[], { metrics: 'loss' }, codes.badRequest, 'metrics: expected a list'],
    [[], { metrics: [''] }, codes.badRequest, 'metrics[0]: must not be empty'],
    [[], { metrics: ['a\0b'] }, codes.badRequest, 'metrics[0]: must not hold NUL or half of a surrogate pair'],
    [[], { metrics: keys(101) }, codes.badRequest, 'metrics: must have 100 entries or fewer'],
    [[], { params: [5] }, codes.badRequest, 'params[0]: expected a string'],
    [[], { fetchFull: 'yes' }, codes.badRequest, 'fetchFull: expected true or false'],
    [[], { independentMetrics: 5 }, codes.badRequest, 'independentMetrics: expected true or false'],
    [
      keys(51),
      { metrics: keys(100) },
      chartTooLarge,
      /^metrics: times targetedExperiments there are 5100; ask for 5000/,
    ],
    [
      [],
      { metrics: keys(100).map((it) => it + 'é'.repeat(1_900)) },
      chartTooLarge,
      'metrics: must have 100000 bytes together',
    ],
  ]
  for (const [targeted, fields, code, message] of refusals) {
    expectRefusal(await post(targeted, fields), 400, code, message)
  }
})

it.each([
  {
    ...{ accepted: 'zstd', decode: zstdDecompressSync },
    encode: (it: Buffer) => zstdCompressSync(it, { params: { [constants.ZSTD_c_compressionLevel]: 1 } }),
  },
  {
    ...{ accepted: 'br', decode: brotliDecompressSync },
    encode: (it: Buffer) => brotliCompressSync(it, { params: { [constants.BROTLI_PARAM_QUALITY]: 1 } }),
  },
  { accepted: 'gzip', decode: gunzipSync, encode: (it: Buffer) => gzipSync(it, { level: 1 }) },
])(
  'a long answer is compressed as $accepted at its fastest level for who accepts it, and a short one is not',
  async ({ accepted, decode, encode }) => {
    const key = await anExperiment(Array.from({ length: 300 }, (_, step) => aPoint({ metricValue: step / 7, step })))
    const path = `/experiment/metrics/get-metric?experimentKey=${key}&metricName=loss`
    const plain = await getBytes(path)
    const long = await getBytes(path, accepted)
    const short = await getBytes(`/experiment/metadata?experimentKey=${key}`, accepted)

    expect([plain.encoding, long.encoding, short.encoding]).toEqual([undefined, accepted, undefined])
    expect(long.bytes.length).toBeLessThan(plain.bytes.length / 2)
    expect(decode(long.bytes).toString()).toBe(plain.bytes.toString())
    expect([long.bytes.length, long.length]).toEqual([encode(plain.bytes).length, String(long.bytes.length)])
    expect(long.vary).toContain('accept-encoding')
  },
)

async function getBytes(path: string, accepted?: string) {
  const headers = { authorization: service.apiKey, ...(accepted && { 'accept-encoding': accepted }) }
  const answer = await new Promise<IncomingMessage>((resolve, reject) => {
    request(`${service.url}/api/rest/v2${path}`, { headers }, resolve).on('error', reject).end()
  })
  const { 'content-encoding': encoding, 'content-length': length, vary } = answer.headers
  return { encoding, length, vary, bytes: await buffer(answer) }
}
