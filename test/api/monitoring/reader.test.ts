import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import { eventually } from '../../kit/eventually.ts'
import { openTestService, storesWith, uniqueName } from '../../kit/service.ts'
import { openTwoUsers, type TwoUsers } from '../accounts/two-users.ts'
import { codes, expectRefusal } from '../http-error.ts'

/** What `test/clients/test_comet_mpm_reader.py` shows with the client itself is not repeated here. */

const hour = 3_600_000
const start = 1_700_006_400_000
const modelName = uniqueName('model')
const [featureUnknown, modelUnknown, referenceUnknown] = [8_000_100, 8_000_090, 8_000_101]
const [sqlRefused, sqlTooLarge, sqlOff, adminOnly] = [8_000_120, 8_000_121, 8_000_122, 8_000_015]
const hasSql = inject('stores').clickhouseSqlUrl !== undefined

let service: TwoUsers
let modelId: string
beforeAll(async () => {
  service = await openTwoUsers({ isAdmin: true })
  const { client, stranger, workspaceName } = service
  const events = (name: string, workspace: string, scores: number[]) =>
    scores.map((score, at) => ({
      workspaceName: workspace,
      modelName: name,
      modelVersion: at % 2 === 0 ? '1' : '2',
      predictionId: `${name} ${at}`,
      timestamp: start + at * 600_000,
      features: {
        age: 20 + at,
        country: at < 6 ? 'NL' : 'DE',
        mixed: at === 0 ? 'x' : at,
        'odd `name': at,
        none: null,
      },
      prediction: { score, value: String(at % 3) },
      labels: { target: at % 2 === 1, level: at % 3 },
    }))
  const scores = [0.1, 0.9, 0.2, 0.2, 0.3, 0.1, 0.5, 0.5, 0.8]
  await client.post('/mpm/v2/events/batch', { data: events(modelName, workspaceName, scores) })
  await client.post('/mpm/v2/events/batch', { data: events(`${modelName}-other`, workspaceName, [1, 1, 1]) })
  await stranger.post('/mpm/v2/events/batch', { data: events(modelName, stranger.workspaceName, [7, 7, 7]) })
  modelId = (await listModels()).find((it) => it.modelName === modelName)?.modelId as string
  await eventually(async () => {
    expect(await count({})).toEqual([9])
    const { labels } = (await details(modelId)).body.model as { labels: unknown[] }
    expect(labels).toHaveLength(2)
  }, 15_000)
})
afterAll(() => service?.close())

async function listModels(client = service.client) {
  const { body } = await client.get('/api/mpm/v3/workspaces')
  const workspaces = body.workspaces as { models: { modelId: string; modelName: string }[] }[]
  return workspaces.flatMap((it) => it.models)
}

const details = (id: string, client = service.client) => client.get(`/api/mpm/v2/model/details?modelId=${id}`)
const ask = (path: string, body: Record<string, unknown>, client = service.client) =>
  client.post(`/api/mpm/v2/${path}`, { modelId, ...body })
const ofDay = { from: '2023-11-15', to: '2023-11-16T00:00:00Z' }

type Series = { data: { predicateKey: string; data: { x: string; y: number | null }[] }[] }
async function series(path: string, body: Record<string, unknown>) {
  const answer = await ask(path, body)
  expect(answer.status, answer.text).toBe(200)
  return (answer.body as Series).data
}
const values = async (path: string, body: Record<string, unknown>) =>
  (await series(path, body)).map((it) => it.data.map(({ y }) => y))[0]
const count = (body: Record<string, unknown>) => values('model/numberOfPredictions', body)

describe('the time of a read', () => {
  it('is the hours or days of UTC that have events, or those between from and to', async () => {
    expect(await series('model/numberOfPredictions', { intervalType: 'HOURLY' })).toEqual([
      {
        predicateKey: 'all',
        data: [
          { x: '2023-11-15T00:00:00.000Z', y: 6 },
          { x: '2023-11-15T01:00:00.000Z', y: 3 },
        ],
      },
    ])
    const halves = { from: start + hour / 2, to: String(start + hour + 1), intervalType: 'hourly' }
    expect(await count(halves)).toEqual([3, 1])
    expect(await count({ from: '2023-11-15 00:30:00', to: '2023-11-15T02:00:00.5+01:00' })).toEqual([4])
    expect(await count({ ...ofDay, version: '2' })).toEqual([4])
    expect(await count({ from: '2023-11-13', to: '2023-11-17' })).toEqual([0, 0, 9, 0])
    expect(await count({ from: '2020-01-01', to: '2020-01-02' })).toEqual([0])
    expect(await count({ to: '2020-01-01' })).toEqual([0])
  })

  it.each([
    [{ from: 'yesterday' }, /^from: expected a time/],
    [{ from: '2023-13-45' }, /^from: expected a time/],
    [{ to: true }, /^to: expected a time/],
    [{ from: '2023-11-16', to: '2023-11-15' }, /^to: must be later than from/],
    [{ intervalType: 'WEEKLY' }, /^intervalType: must be DAILY or HOURLY/],
    [{ from: '2000-01-01', to: '2023-11-15', intervalType: 'HOURLY' }, /^intervalType: makes more than 1000 intervals/],
    [{ version: 7 }, /^version: expected a string/],
    [{ predicates: 'a' }, /^predicates: expected a list/],
    [{ predicates: [{ key: 'a' }] }, /^predicates\[0\]\.query: is missing/],
    [{ predicates: [{ query: 'true' }] }, /^predicates\[0\]\.key: is missing/],
  ])('%o is refused', async (body, message) => {
    expectRefusal(await ask('model/numberOfPredictions', body), 400, codes.badRequest, message)
  })
})

it('columns have a type, and a source that the reads take', async () => {
  expect((await details(modelId)).body).toEqual({
    name: modelName,
    model: {
      modelId,
      name: modelName,
      workspaceName: service.workspaceName,
      features: [
        { name: 'age', type: 'NUMERICAL', source: 'model_input_features' },
        { name: 'country', type: 'CATEGORICAL', source: 'model_input_features' },
        { name: 'mixed', type: 'NUMERICAL', source: 'model_input_features' },
        { name: 'none', type: 'NUMERICAL', source: 'model_input_features' },
        { name: 'odd `name', type: 'NUMERICAL', source: 'model_input_features' },
        { name: 'score', type: 'NUMERICAL', source: 'model_output_features' },
        { name: 'value', type: 'CATEGORICAL', source: 'model_output_features' },
      ],
      labels: [
        { name: 'level', type: 'NUMERICAL' },
        { name: 'target', type: 'CATEGORICAL' },
      ],
      versions: ['1', '2'],
    },
  })
  for (const path of ['features/distribution', 'features/numerical-distribution-pdf', 'features/drift']) {
    const refused = { name: 'nothing', source: 'model_labels' }
    const code = path === 'features/drift' ? referenceUnknown : featureUnknown
    const message = path === 'features/drift' ? /has no reference data set/ : /^name: the model has no label "nothing"/
    expectRefusal(await ask(path, refused), 400, code, message)
    expectRefusal(await ask(path, {}), 400, codes.badRequest, /^name: is missing/)
    expectRefusal(await ask(path, { name: 'age', source: 'a' }), 400, codes.badRequest, /^source: must be one of/)
  }
  expectRefusal(
    await ask('features/drift', { name: 'age', algorithmType: 'X' }),
    400,
    codes.badRequest,
    /^algorithmType: must be one of EMD, PSI, KL, KS/,
  )
  const categorical = await ask('features/numerical-distribution-pdf', { name: 'country' })
  expectRefusal(categorical, 400, codes.badRequest, /^name: is categorical/)
  const labels = await ask('features/distribution', { name: 'target', source: 'model_labels', ...ofDay })
  expect((labels.body.data as { chartData: unknown }[])[0]?.chartData).toEqual([
    { value: 'false', points: [{ x: '2023-11-15T00:00:00.000Z', y: 5 }] },
    { value: 'true', points: [{ x: '2023-11-15T00:00:00.000Z', y: 4 }] },
  ])
  const empty = await ask('features/distribution', { name: 'age', from: '2020-01-01', to: '2020-01-02' })
  const [{ chartData } = { chartData: [] }] = empty.body.data as { chartData: { points: unknown }[] }[]
  expect(chartData.map((it) => it.points)).toEqual(Array(7).fill([{ x: '2020-01-01T00:00:00.000Z', y: null }]))
})

it('labels of a score are booleans, 0 and 1, or are named by the positive one', async () => {
  const scored = { scoreName: 'score', labelName: 'target', ...ofDay }
  const curve = (more = {}) => values('model/classification-curve', { ...scored, ...more })
  // Positives have 0.9, 0.2, 0.1, 0.5; negatives 0.1, 0.2, 0.3, 0.5, 0.8.
  expect(await curve()).toEqual([(5 + 1.5 + 0.5 + 3.5) / 20])
  expect(await curve({ curveType: 'GINI', positiveClassValue: 'true' })).toEqual([expect.closeTo(0.05, 12)])
  expect(await curve({ curveType: 'KS' })).toEqual([expect.closeTo(0.25, 12)])
  expect(await curve({ positiveClassValue: 'none' })).toEqual([null])
  expect(await curve({ labelName: 'level', positiveClassValue: '2.0' })).toEqual([expect.closeTo(7 / 18, 12)])
  expect(await curve({ from: '2020-01-01', to: '2020-01-02' })).toEqual([null])
  const message = /^positiveClassValue: is missing, and the labels are not 0 and 1/
  for (const path of ['model/classification-curve', 'model/gains-table']) {
    expectRefusal(await ask(path, { ...scored, labelName: 'level' }), 400, codes.badRequest, message)
    const unknown = { ...scored, labelName: 'score' }
    expectRefusal(await ask(path, unknown), 400, featureUnknown, /^labelName: the model has no label "score"/)
    expectRefusal(
      await ask(path, { ...scored, scoreName: 'a' }),
      400,
      featureUnknown,
      /^scoreName: .* no prediction "a"/,
    )
    expectRefusal(await ask(path, {}), 400, codes.badRequest, /^scoreName: is missing/)
  }
  const gains = await ask('model/gains-table', { ...scored, bandCount: 2 })
  expect(gains.body).toEqual({
    tables: [
      {
        predicateKey: 'all',
        total: 9,
        totalPositives: 4,
        overallRate: 4 / 9,
        rows: [
          {
            ...{ band: 1, scoreFrom: 0.3, scoreTo: 0.9, count: 5, positives: 2, responseRate: 0.4 },
            ...{ cumulativeCount: 5, cumulativePositives: 2, cumulativePopulationShare: 5 / 9, cumulativeGain: 0.5 },
            ...{ lift: 0.4 / (4 / 9), cumulativeLift: 0.4 / (4 / 9), cumulativeSeparation: 0.5 - 3 / 5 },
          },
          {
            ...{ band: 2, scoreFrom: 0.1, scoreTo: 0.2, count: 4, positives: 2, responseRate: 0.5 },
            ...{ cumulativeCount: 9, cumulativePositives: 4, cumulativePopulationShare: 1, cumulativeGain: 1 },
            ...{ lift: 0.5 / (4 / 9), cumulativeLift: 1, cumulativeSeparation: 0 },
          },
        ],
      },
    ],
  })
  const none = await ask('model/gains-table', { ...scored, from: '2020-01-01', to: '2020-01-02' })
  const nothing = { predicateKey: 'all', total: 0, totalPositives: 0, overallRate: null, rows: [] }
  expect(none.body).toEqual({ tables: [nothing] })
  expectRefusal(await ask('model/gains-table', { ...scored, bandCount: 1 }), 400, codes.badRequest, /^bandCount: /)
})

it('absent and foreign models answer the same, and lists leave foreign ones out', async () => {
  const { stranger } = service
  const own = await listModels(stranger)
  expect(own.map((it) => it.modelName)).toEqual([modelName])
  expect(own[0]?.modelId).not.toBe(modelId)
  const unknown = /^modelId: there is no model ".*" that this key may use/
  const calls = ['numberOfPredictions', 'classification-curve', 'gains-table'].map((it) => `model/${it}`)
  const features = ['drift', 'distribution', 'numerical-distribution-pdf'].map((it) => `features/${it}`)
  const body = { name: 'age', scoreName: 'score', labelName: 'target', cometSql: 'SELECT count(*) FROM MODEL' }
  for (const path of [...calls, ...features, 'custom-metrics/query']) {
    expectRefusal(await ask(path, body, stranger), 400, modelUnknown, unknown)
    for (const id of ['0', '999999999999', 'a', '1 OR true']) {
      expectRefusal(await ask(path, { ...body, modelId: id }, stranger), 400, modelUnknown, unknown)
    }
    expectRefusal(
      await ask(path, { ...body, modelId: undefined }, stranger),
      400,
      codes.badRequest,
      /^modelId: is missing/,
    )
  }
  expectRefusal(await details(modelId, stranger), 400, modelUnknown, unknown)
  const ofAdmin = { workspaceName: service.workspaceName, modelName }
  const schema = `/api/mpm/v2/admin/model/schema?${new URLSearchParams(ofAdmin)}`
  const query = { ...ofAdmin, sql: 'SELECT count(*) FROM MODEL' }
  expectRefusal(await stranger.get(schema), 403, adminOnly, /Only an admin/)
  expectRefusal(await stranger.post('/api/mpm/v2/admin/query', query), 403, adminOnly, /Only an admin/)
  const foreign = { ...query, workspaceName: stranger.workspaceName }
  const answer = await service.client.post('/api/mpm/v2/admin/query', foreign)
  expectRefusal(answer, 400, codes.workspaceUnknown, /^There is no workspace/)
})

describe.skipIf(!hasSql)('SQL', () => {
  const metric = (cometSql: string, more = {}) => ask('custom-metrics/query', { cometSql, ...ofDay, ...more })
  const query = (sql: string, more = {}) =>
    service.client.post('/api/mpm/v2/admin/query', { workspaceName: service.workspaceName, modelName, sql, ...more })

  it('sees the model and no other, in the time of the read', async () => {
    const read = async (sql: string, more = {}) =>
      ((await metric(sql, more)).body as Series).data[0]?.data.map((it) => it.y)
    expect(await read('SELECT max(prediction_score) FROM MODEL')).toEqual([0.9])
    expect(await read('SELECT sum("feature_odd `name") FROM model')).toEqual([36])
    expect(await read("SELECT count(feature_mixed) FROM Model WHERE label_target = 'true'")).toEqual([4])
    expect(await read('SELECT count(DISTINCT modelVersion) FROM MODEL', { version: '2' })).toEqual([1])
    expect(await read('SELECT count(*) FROM MODEL', { intervalType: 'HOURLY', to: '2023-11-15T03:00:00Z' })).toEqual([
      6, 3, 0,
    ])
    expect(
      await read('SELECT avg(feature_age) FROM MODEL', { intervalType: 'HOURLY', to: '2023-11-15T03:00:00Z' }),
    ).toEqual([22.5, 27, null])
    const predicates = [
      { key: 'young', query: 'feature_age < 22' },
      { key: 'German', query: "feature_country = 'DE' AND label_target = 'true'" },
      { key: 'none', query: 'feature_none IS NOT NULL' },
    ]
    const of = async (path: string, more = {}) =>
      (await series(path, { ...ofDay, predicates, ...more })).map((it) => it.data[0]?.y)
    expect(await of('model/numberOfPredictions')).toEqual([2, 1, 0])
    expect(await of('custom-metrics/query', { cometSql: 'SELECT max(timestamp) FROM MODEL' })).toEqual([
      start + 600_000,
      start + 7 * 600_000,
      null,
    ])
    const scored = { scoreName: 'score', labelName: 'level', positiveClassValue: '1' }
    expect(await of('model/classification-curve', scored)).toEqual([1, null, null])
  })

  it.each([
    ['SELECT count(*), 1 FROM MODEL', /must be SELECT <one aggregate> FROM MODEL/],
    ['SELECT count(*) FROM MODEL GROUP BY feature_age', /must be SELECT <one aggregate>/],
    ['SELECT count(*) FROM MODEL LIMIT 1', /must be SELECT <one aggregate>/],
    ['SELECT feature_age FROM MODEL', /aggregate/i],
    ['SELECT any(feature_country) FROM MODEL', /its value a number/],
    ['SELECT sum(feature_nothing) FROM MODEL', /feature_nothing/],
    ['SELECT count(*) FROM (SELECT 1)', /must be SELECT <one aggregate>/],
    ["SELECT max(file('/etc/passwd')) FROM MODEL", /the function file is not allowed/],
    ['SELECT (', /Syntax error/],
  ])('%s is refused', async (sql, message) => {
    const answer = await metric(sql)
    expectRefusal(answer, 400, sqlRefused, message)
    expect(answer.body.msg).toMatch(/^sql: /)
  })

  it('a wrong condition is refused by its place, in every read', async () => {
    const predicates = [
      { key: 'a', query: 'true' },
      { key: 'b', query: 'feature_age IN (SELECT 1)' },
    ]
    const body = {
      predicates,
      name: 'age',
      scoreName: 'score',
      labelName: 'target',
      cometSql: 'SELECT max(1) FROM MODEL',
    }
    const paths = ['model/numberOfPredictions', 'features/distribution', 'features/numerical-distribution-pdf']
    for (const path of [...paths, 'model/classification-curve', 'model/gains-table', 'custom-metrics/query']) {
      expectRefusal(await ask(path, body), 400, sqlRefused, /^predicates\[1\]\.query: Subquery is not allowed/)
    }
    const unknown = await ask('model/numberOfPredictions', { predicates: [{ key: 'a', query: 'region = us' }] })
    expectRefusal(unknown, 400, sqlRefused, /^sql: .*region/)
  })

  it('an admin reads rows, as many as asked for and allowed', async () => {
    const read = await query('SELECT predictionId, timestamp, feature_none FROM MODEL ORDER BY timestamp', {
      maxRows: 2,
    })
    expect(read.body).toEqual({
      columns: [
        { name: 'predictionId', type: 'String' },
        { name: 'timestamp', type: 'Int64' },
        { name: 'feature_none', type: 'Nullable(Float64)' },
      ],
      rows: [0, 1].map((at) => ({
        predictionId: `${modelName} ${at}`,
        timestamp: start + at * 600_000,
        feature_none: null,
      })),
      rowCount: 2,
      truncated: true,
    })
    const grouped = await query(
      'WITH a AS (SELECT feature_country AS c, count(*) AS n FROM MODEL GROUP BY c) SELECT * FROM a ORDER BY c',
    )
    expect(grouped.body.rows).toEqual([
      { c: 'DE', n: 3 },
      { c: 'NL', n: 6 },
    ])
    expect((await query('SELECT 9223372036854775807 AS a FROM MODEL LIMIT 1')).text).toContain(
      '"a":9223372036854775807',
    )
    expectRefusal(await query('SELECT 1'), 400, sqlRefused, /^sql: must read FROM MODEL/)
    expectRefusal(await query('SELECT count() FROM svc.events, MODEL'), 400, sqlRefused, /only MODEL can be read/)
    expectRefusal(await query('DROP TABLE svc.events'), 400, sqlRefused, /must be one SELECT/)
    expectRefusal(await query('SELECT 1 FROM MODEL', { maxRows: 0 }), 400, codes.badRequest, /^maxRows: /)
    expectRefusal(await query(''), 400, codes.badRequest, /^sql: must not be empty/)
  })

  it('limits are settings, and without its user there is no SQL', async () => {
    const roles = new Set(['api'] as const)
    const limited = await openTestService({ roles, settings: { SVC_SQL_ROWS_READ_MAX: '3', SVC_SQL_ROWS_MAX: '4' } })
    const without = await openTestService({ roles, stores: { ...storesWith('postgres'), clickhouseSqlUrl: undefined } })
    try {
      const { apiKey } = service
      const call = async (url: string, path: string, body: object) => {
        const headers = { authorization: apiKey, 'content-type': 'application/json' }
        const answer = await fetch(`${url}/api/mpm/v2/${path}`, { method: 'POST', headers, body: JSON.stringify(body) })
        return (await answer.json()) as { sdk_error_code: number; msg: string }
      }
      const max = { modelId, cometSql: 'SELECT max(feature_age) FROM MODEL', ...ofDay }
      expect(await call(limited.url, 'custom-metrics/query', max)).toMatchObject({ sdk_error_code: sqlTooLarge })
      const refused = await call(without.url, 'custom-metrics/query', max)
      expect(refused).toMatchObject({ sdk_error_code: sqlOff, msg: expect.stringMatching(/CLICKHOUSE_SQL_URL/) })
      const filtered = { modelId, predicates: [{ key: 'a', query: 'true' }] }
      expect(await call(without.url, 'model/numberOfPredictions', filtered)).toMatchObject({ sdk_error_code: sqlOff })
      expect(await call(without.url, 'model/numberOfPredictions', { modelId })).toMatchObject({ data: [{}] })
    } finally {
      await Promise.all([limited.close(), without.close()])
    }
  })
})
