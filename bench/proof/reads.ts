import { createHash } from 'node:crypto'

/** Where to read, as whom. */
type Place = { url: string; apiKey: string }

type Read = { path: string; body?: object }

/**
 * Every read of a project of which an answer is made of many runs, and those of each run. Parquet and Arrow are left out: the
 * same rows may be cut into blocks elsewhere.
 */
export function listReads(projectId: string, runs: { key: string; assetIds: string[] }[]): Read[] {
  const get = (path: string, query: Record<string, string>): Read => ({ path: `${path}?${new URLSearchParams(query)}` })
  const metric = (name: string) => ({ source: 'metric', name })
  const columns = [{ source: 'parameter', name: 'rate' }, metric('loss'), { ...metric('train_NA'), of: 'min' }]
  const ofProject: Read[] = [
    ...['', '/notes', '/column-names'].map((it) => get(`/project${it}`, { projectId })),
    get('/experiments', { projectId }),
    ...['metrics', 'system-metrics', 'output', 'runs'].flatMap((what) =>
      ['csv', 'jsonl'].map((format) => get(`/export/${what}`, { projectId, format })),
    ),
    { path: '/project/runs', body: { projectId, columns, size: 1_000 } },
    {
      path: '/project/runs',
      body: {
        projectId,
        columns,
        size: 1_000,
        query: 'metric.loss:min < 0 or tag = odd',
        sort: [{ column: columns[1] }],
      },
    },
    { path: '/project/run-columns', body: { projectId } },
    { path: '/project/query', body: { projectId, query: 'name ~ "7$"' } },
    { path: '/project/query-completion', body: { projectId, query: 'param.rate = ' } },
    { path: '/project/output/search', body: { projectId, search: 'line 7' } },
  ]
  const names = ['metadata', 'parameters', 'log-other', 'tags', 'output', 'output/lines', 'counters', 'asset/list']
  const ofRuns = runs.flatMap(({ key: experimentKey, assetIds }): Read[] => [
    ...names.map((it) => get(`/experiment/${it}`, { experimentKey })),
    get('/experiment/metrics/summary', { experimentKey }),
    get('/experiment/metrics/get-all', { experimentKey }),
    get('/experiment/metrics/get-metric', { experimentKey, metricName: 'loss', maxPoints: '50' }),
    ...assetIds.map((assetId) => get('/experiment/asset/get-asset', { experimentKey, assetId })),
  ])
  return [...ofProject, ...ofRuns]
}

const readsAtOnce = 2

/**
 * A checksum of each answer, without the id of the workspace, which is the server's own. Where several points of a thinned series
 * have the least or the greatest value, any of them may stand for it: of these series the values count.
 */
export async function readAll({ url, apiKey }: Place, reads: Read[]): Promise<Map<string, string>> {
  const sums = new Map<string, string>()
  const work = reads.values()
  const readOn = async () => {
    for (const { path, body } of work) sums.set(JSON.stringify({ path, body }), await sumOf(path, body))
  }
  await Promise.all(Array.from({ length: readsAtOnce }, readOn))
  return sums

  async function sumOf(path: string, body: object | undefined): Promise<string> {
    const answer = await ask(path, body)
    const hash = createHash('sha256').update(answer.headers.get('content-type') ?? '')
    if (path.includes('maxPoints=')) {
      const { metrics } = (await answer.json()) as { metrics: { metricValue: unknown }[] }
      hash.update(JSON.stringify(metrics.map((it) => String(it.metricValue)).sort()))
    } else if (answer.headers.get('content-type')?.startsWith('application/json')) {
      hash.update((await answer.text()).replaceAll(/"workspaceId":"[^"]+"/g, ''))
    } else for await (const chunk of answer.body as AsyncIterable<Uint8Array>) hash.update(chunk)
    return hash.digest('hex')
  }

  async function ask(path: string, body: object | undefined): Promise<Response> {
    for (;;) {
      const answer = await fetch(`${url}/api/rest/v2${path}`, {
        method: body ? 'POST' : 'GET',
        headers: { authorization: apiKey, ...(body && { 'content-type': 'application/json' }) },
        ...(body && { body: JSON.stringify(body) }),
      })
      if (answer.status === 200) return answer
      const text = await answer.text()
      // One export of a user at a time.
      if (answer.status !== 429) throw new Error(`${path} answered ${answer.status}: ${text}`)
      await new Promise((resolve) => setTimeout(resolve, 500))
    }
  }
}

/** @throws Error with the reads whose answers differ */
export function compareReads(found: Map<string, string>, expected: Map<string, string>) {
  const differing = [...expected.keys()].filter((it) => found.get(it) !== expected.get(it))
  if (differing.length === 0) return
  throw new Error(`${differing.length} of ${expected.size} reads differ, such as ${differing.slice(0, 5).join(' ')}`)
}
