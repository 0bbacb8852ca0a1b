import { afterAll, beforeAll, expect, it } from 'vitest'
import { createClient } from '../../kit/http/client.ts'
import { createUser, openTestService, storesWith, uniqueName } from '../../kit/service.ts'

/** What clients of MLflow need beyond what their own packages show: `test/clients/mlflow` runs two of those. */

let service: Awaited<ReturnType<typeof openTestService>>
beforeAll(async () => {
  service = await openTestService()
})
afterAll(() => service?.close())

const mlflow = '/api/2.0/mlflow'
const post = (path: string, body: object) => service.client.post(`${mlflow}/${path}`, body)
const get = (path: string, query: Record<string, string>) =>
  service.client.get(`${mlflow}/${path}?${new URLSearchParams(query)}`)

async function createRun(fields: object = {}) {
  const { body } = await post('experiments/create', { name: uniqueName('experiment') })
  const experimentId = body.experiment_id as string
  const made = await post('runs/create', { experiment_id: experimentId, start_time: 1_700_000_000_000, ...fields })
  const { info } = made.body.run as { info: { run_id: string } }
  return { experimentId, runId: info.run_id }
}

type Run = { info: Record<string, unknown>; data: Record<'metrics' | 'params' | 'tags', Record<string, unknown>[]> }

async function readRun(runId: string): Promise<Run> {
  return (await get('runs/get', { run_id: runId })).body.run as Run
}

it('a batch that comes again, as a whole or in parts, stores each point once, and every value as it was', async () => {
  const { runId } = await createRun()
  const at = (step: number, value: number | string) => ({
    key: 'loss',
    value,
    step,
    timestamp: 1_700_000_000_000 + step,
  })
  const points = [at(0, 0.1), at(1, 'NaN'), at(2, 'Infinity'), at(3, '-Infinity'), at(4, -0.0), at(5, 1e-320)]
  for (const metrics of [points, points.slice(0, 3), [...points.slice(3), ...points.slice(3)]]) {
    expect((await post('runs/log-batch', { run_id: runId, metrics })).status).toBe(200)
  }
  expect((await post('runs/log-metric', { run_id: runId, ...points[0] })).status).toBe(200)
  const { body } = await get('metrics/get-history', { run_id: runId, metric_key: 'loss' })
  const found = body.metrics as { value: unknown; step: number }[]
  expect(found.map((it) => it.value)).toEqual([0.1, 'NaN', 'Infinity', '-Infinity', 0, 1e-320])
  const pages = []
  for (let token = ''; ; ) {
    const query = { run_id: runId, metric_key: 'loss', max_results: '4', ...(token && { page_token: token }) }
    const page = (await get('metrics/get-history', query)).body
    pages.push((page.metrics as unknown[]).length)
    token = (page.next_page_token as string) ?? ''
    if (!token) break
  }
  expect(pages).toEqual([4, 2])
})

it('a batch with a wrong point or another value of a parameter stores nothing of it', async () => {
  const { runId } = await createRun()
  const point = { key: 'loss', value: 1, timestamp: 1 }
  await post('runs/log-batch', { run_id: runId, params: [{ key: 'lr', value: '0.1' }] })
  for (const [body, message] of [
    [{ metrics: [point, { ...point, value: 'much' }], params: [{ key: 'a', value: '1' }] }, /^metrics\[1\]\.value: /],
    [
      {
        metrics: [point],
        params: [
          { key: 'a', value: '1' },
          { key: 'lr', value: '0.2' },
        ],
      },
      /^params: lr is 0\.1 already/,
    ],
  ] as const) {
    const refused = await post('runs/log-batch', { run_id: runId, ...body })
    expect([refused.status, refused.body.error_code]).toEqual([400, 'INVALID_PARAMETER_VALUE'])
    expect(refused.body.message).toMatch(message)
  }
  const same = await post('runs/log-batch', { run_id: runId, params: [{ key: 'lr', value: '0.1' }] })
  expect(same.status).toBe(200)
  const { data } = await readRun(runId)
  expect([data.metrics, data.params]).toEqual([[], [{ key: 'lr', value: '0.1' }]])
})

it('each status is read back as it was reported, and is a state of our runs', async () => {
  for (const [status, state] of [
    ['RUNNING', 'running'],
    ['SCHEDULED', 'running'],
    ['FINISHED', 'finished'],
    ['FAILED', 'crashed'],
    ['KILLED', 'lost'],
  ] as const) {
    const { experimentId, runId } = await createRun()
    await post('runs/update', { run_id: runId, status, ...(state !== 'running' && { end_time: 1_700_000_001_000 }) })
    expect((await readRun(runId)).info.status).toBe(status)
    const rows = await service.client.post('/project/runs', {
      projectId: experimentId,
      columns: [],
      query: `state = ${state}`,
    })
    expect(rows.body.runs, status).toMatchObject([{ experimentKey: runId, state }])
    const found = await post('runs/search', { experiment_ids: [experimentId], filter: `status = '${status}'` })
    if (status !== 'SCHEDULED') expect(found.body.runs).toHaveLength(1)
  }
})

it('an experiment `workspace/project` is of that workspace, as one that the client chooses with its header is', async () => {
  const workspace = uniqueName('workspace')
  await service.client.post('/write/workspace/new', { name: workspace })
  const made = await post('experiments/create', { name: `${workspace}/digits` })
  const id = made.body.experiment_id as string
  const named = await get('experiments/get-by-name', { experiment_name: `${workspace}/digits` })
  expect(named.body.experiment).toMatchObject({ experiment_id: id, name: `${workspace}/digits` })
  const headers = { 'x-mlflow-workspace': workspace }
  const chosen = await service.client.get(`${mlflow}/experiments/get-by-name?experiment_name=digits`, { headers })
  expect(chosen.body.experiment).toMatchObject({ experiment_id: id, name: 'digits' })
  const slash = await post('experiments/create', { name: '/Users/me/digits' })
  expect(slash.status).toBe(200)
})

it('runs of several experiments are searched at once, by datasets too, deleted ones when asked', async () => {
  const [one, two] = [await createRun({ run_name: 'one' }), await createRun({ run_name: 'two' })]
  const dataset = { name: 'digits', digest: 'abc', source_type: 'local', source: '{}' }
  const tags = [{ key: 'mlflow.data.context', value: 'train' }]
  await post('runs/log-inputs', { run_id: one.runId, datasets: [{ dataset, tags }] })
  await post('runs/delete', { run_id: two.runId })
  const experimentIds = [one.experimentId, two.experimentId]
  const search = async (fields: object) => {
    const { body } = await post('runs/search', { experiment_ids: experimentIds, order_by: ['run_name'], ...fields })
    return (body.runs as Run[]).map((it) => it.info.run_name)
  }
  expect(await search({})).toEqual(['one'])
  expect(await search({ run_view_type: 'DELETED_ONLY' })).toEqual(['two'])
  expect(await search({ run_view_type: 'ALL' })).toEqual(['one', 'two'])
  expect(
    await search({ run_view_type: 'ALL', filter: "dataset.name = 'digits' and dataset.context = 'train'" }),
  ).toEqual(['one'])
  expect(await search({ run_view_type: 'ALL', filter: "tags.mlflow.runName LIKE 't%'" })).toEqual(['two'])
  const summaries = await post('experiments/search-datasets', { experiment_ids: experimentIds })
  expect(summaries.body.dataset_summaries).toMatchObject([{ name: 'digits', context: 'train' }])
})

it('a page of large runs has fewer than were asked for, and its token goes on', async () => {
  const { experimentId, runId } = await createRun()
  const names = [runId]
  for (let at = 0; at < 129; at++) {
    const made = await post('runs/create', { experiment_id: experimentId, start_time: 1_700_000_000_001 + at })
    names.push((made.body.run as Run).info.run_id as string)
  }
  const value = 'x'.repeat(1_000_000)
  const large = new Set(names.slice(90))
  await Promise.all([...large].map((run_id) => post('runs/set-tag', { run_id, key: 'large', value })))
  const found: unknown[][] = []
  for (let page_token: unknown = ''; page_token !== undefined; ) {
    const search = { experiment_ids: [experimentId], max_results: 130, order_by: ['start_time'] }
    const { body } = await post('runs/search', { ...search, ...(page_token !== '' && { page_token }) })
    const runs = body.runs as Run[]
    for (const { info, data } of runs) {
      expect(data.tags.some((it) => it.value === value)).toBe(large.has(info.run_id as string))
    }
    found.push(runs.map((it) => it.info.run_id))
    page_token = body.next_page_token
  }
  expect(found.map((it) => it.length)).toEqual([124, 6])
  expect(found.flat()).toEqual(names)
})

it('what is of another organization looks as if it were not there', async () => {
  const { experimentId, runId } = await createRun()
  const stranger = createClient(service.url, await createUser(storesWith('postgres')))
  const calls: [path: string, body: object][] = [
    ['runs/log-metric', { run_id: runId, key: 'a', value: 1, timestamp: 1 }],
    ['runs/log-batch', { run_id: runId }],
    ['runs/create', { experiment_id: experimentId }],
    ['runs/update', { run_id: runId, status: 'FINISHED' }],
    ['runs/delete', { run_id: runId }],
    ['runs/restore', { run_id: runId }],
    ['runs/log-parameter', { run_id: runId, key: 'a', value: '1' }],
    ['runs/set-tag', { run_id: runId, key: 'a', value: '1' }],
    ['runs/delete-tag', { run_id: runId, key: 'a' }],
    ['runs/log-model', { run_id: runId, model_json: '{}' }],
    ['runs/log-inputs', { run_id: runId }],
    ['runs/outputs', { run_id: runId }],
    ['runs/search', { experiment_ids: [experimentId] }],
    ['experiments/delete', { experiment_id: experimentId }],
    ['experiments/restore', { experiment_id: experimentId }],
    ['experiments/update', { experiment_id: experimentId, new_name: 'a' }],
    ['experiments/set-experiment-tag', { experiment_id: experimentId, key: 'a', value: 'b' }],
    ['experiments/delete-experiment-tag', { experiment_id: experimentId, key: 'a' }],
    ['experiments/search-datasets', { experiment_ids: [experimentId] }],
  ]
  for (const [path, body] of calls) {
    const { status, body: answer } = await stranger.post(`${mlflow}/${path}`, body)
    expect([status, answer.error_code], path).toEqual([404, 'RESOURCE_DOES_NOT_EXIST'])
  }
  for (const path of [
    `runs/get?run_id=${runId}`,
    `metrics/get-history?run_id=${runId}&metric_key=a`,
    `metrics/get-history-bulk-interval?run_ids=${runId}&metric_key=a`,
    `experiments/get?experiment_id=${experimentId}`,
  ]) {
    const { status, body: answer } = await stranger.get(`${mlflow}/${path}`)
    expect([status, answer.error_code], path).toEqual([404, 'RESOURCE_DOES_NOT_EXIST'])
  }
})
