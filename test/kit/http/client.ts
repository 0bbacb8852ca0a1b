import { eventually } from '../eventually.ts'

type User = { apiKey: string; workspaceName: string }

export type Answer = { status: number; headers: Headers; text: string; body: Record<string, unknown> }

type Extra = { headers?: Record<string, string>; apiKey?: string }

/** One point as it is read back. */
export type ReadPoint = {
  metricName: string
  metricValue: string
  timestamp: number
  step: number | null
  epoch: number | null
  runContext: string | null
}

/** Calls of monitoring, of clients that log live and of clients of MLflow have no prefix. */
export const isAtRoot = (path: string) => /^\/(mpm|api\/mpm|api\/[23]\.0|clientlib)\//.test(path)

/** A client that hides nothing: every call answers status, headers and body. */
export function createClient(url: string, user: User) {
  const base = `${url}/api/rest/v2`
  const toAddress = (path: string) =>
    isAtRoot(path) ? `${url}${path}` : path.startsWith('/') ? `${base}${path}` : path

  async function call(
    method: string,
    path: string,
    body: string | Uint8Array | undefined,
    extra: Extra = {},
  ): Promise<Answer> {
    const answer = await fetch(toAddress(path), {
      method,
      headers: {
        authorization: extra.apiKey ?? user.apiKey,
        ...(body !== undefined && { 'content-type': 'application/json' }),
        ...extra.headers,
      },
      body: body as RequestInit['body'],
    })
    const text = await answer.text()
    return { status: answer.status, headers: answer.headers, text, body: toObject(text) }
  }

  const client = {
    get: (path: string, extra?: Extra) => call('GET', path, undefined, extra),
    post: (path: string, body: unknown, extra?: Extra) => call('POST', path, JSON.stringify(body), extra),
    /** A body that is sent as it stands. */
    postRaw: (path: string, body: string | Uint8Array, extra?: Extra) => call('POST', path, body, extra),
    send: call,

    /** Makes an experiment in a project of its own and answers its key. */
    async createExperiment(fields: Record<string, unknown> = {}): Promise<string> {
      const answer = await client.post('/write/experiment/create', {
        workspaceName: user.workspaceName,
        projectName: 'project',
        ...fields,
      })
      if (answer.status !== 200) throw new Error(`experiment/create answered ${answer.status}: ${answer.text}`)
      return answer.body.experimentKey as string
    },

    /** Every stored point of a metric. */
    async readMetric(
      experimentKey: string,
      metricName: string,
      more: Record<string, string> = {},
    ): Promise<ReadPoint[]> {
      const query = new URLSearchParams({ experimentKey, metricName, ...more })
      const answer = await client.get(`/experiment/metrics/get-metric?${query}`)
      if (answer.status !== 200) throw new Error(`get-metric answered ${answer.status}: ${answer.text}`)
      return answer.body.metrics as ReadPoint[]
    },

    /** Waits until the summary of an experiment has a metric, which comes after its points. */
    async waitForSummary(experimentKey: string, name: string): Promise<void> {
      await eventually(async () => {
        const { body } = await client.get(`/experiment/metrics/summary?experimentKey=${experimentKey}`)
        const names = ((body.values ?? []) as { name: string }[]).map((it) => it.name)
        if (!names.includes(name))
          throw new Error(`the summary has no ${name} yet, but ${names.join(', ') || 'nothing'}`)
      })
    },

    /** Reads a metric until it has `count` points. */
    async readPoints(experimentKey: string, metricName: string, count: number): Promise<ReadPoint[]> {
      return await eventually(async () => {
        const points = await client.readMetric(experimentKey, metricName)
        if (points.length < count) throw new Error(`${metricName} has ${points.length} points, not yet ${count}`)
        return points
      })
    },
  }
  return client
}

export type TestClient = ReturnType<typeof createClient>

function toObject(text: string): Record<string, unknown> {
  try {
    return JSON.parse(text)
  } catch {
    return {}
  }
}
