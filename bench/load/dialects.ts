import { float64, int64, list } from '@uwdata/flechette'
import { arrowType } from '../../http/body/arrow.ts'
import { toArrowStream } from '../../test/kit/arrow.ts'
import { contextOf, type DataSet, nameOf, timestampAt, valueAt } from '../../test/kit/curves.ts'

/**
 * The same points in the format of each server: ours, and the fastest documented HTTP API of each peer. A request holds one
 * or more steps of all metrics of one experiment, or one point.
 */
export type Dialect = {
  /** The length of all experiment keys. */
  keyCharacters: number
  toRequests(settings: Payload, part: Part): string[]
  /** True if an answer confirms all points. */
  isAccepted(status: number, body: string, points: number): boolean
}

export type Shape = { kind: 'single' } | { kind: 'rows' | 'columns' | 'arrow'; stepsPerRequest: number }

/** The points to send, the number of points per request, and the API key. */
export type Payload = { shape: Shape; apiKey: string; data: DataSet }

/** The points of one request: some steps (by the shape) of one experiment. */
type Part = { experiment: number; firstStep: number; key: string }

export type DialectName = keyof typeof dialects

export const dialects = {
  service: {
    keyCharacters: 32,
    toRequests(settings, part) {
      const { shape, apiKey } = settings
      const path = shape.kind === 'single' ? 'metric' : 'metrics/batch'
      if (shape.kind === 'arrow') {
        const head = `authorization: ${apiKey}\r\ncontent-type: ${arrowType}\r\n`
        return [post(`/api/rest/v2/write/experiment/${path}`, head, arrowBody(settings, part))]
      }
      const head = `authorization: ${apiKey}\r\ncontent-type: application/json\r\n`
      return serviceBodies(settings, part).map((fields) =>
        post(`/api/rest/v2/write/experiment/${path}`, head, `{"experimentKey":"${part.key}",${fields}}`),
      )
    },
    isAccepted: (status, body, points) => status === 200 && (points === 1 || JSON.parse(body).accepted === points),
  },

  /** One line per point with only its value. */
  influxLines: {
    keyCharacters: 8,
    toRequests: (settings, part) =>
      influxRequests(settings, part, (metric, step) => `value=${value(part, metric, step)}`),
    isAccepted: (status) => status === 204,
  },

  /** One line per point with its step as a second field, which a tracker needs. */
  influxLinesWithStep: {
    keyCharacters: 8,
    toRequests: (settings, part) =>
      influxRequests(settings, part, (metric, step) => `value=${value(part, metric, step)},step=${step}i`),
    isAccepted: (status) => status === 204,
  },

  /** One line per step with all metrics and the step: InfluxDB's fastest form. */
  influxFields: {
    keyCharacters: 8,
    toRequests: (settings, part) => fieldRequests(settings, part, (step) => `,step=${step}i`),
    isAccepted: (status) => status === 204,
  },

  /** The same without the step, for servers that store every field as a series. */
  influxFieldsOnly: {
    keyCharacters: 8,
    toRequests: (settings, part) => fieldRequests(settings, part, () => ''),
    isAccepted: (status) => status === 204,
  },

  /** One line of JSON per series with all its values and times: https://docs.victoriametrics.com `/api/v1/import`. */
  victoriaMetricsImport: {
    keyCharacters: 8,
    toRequests(settings, part) {
      const steps = stepsOf(settings, part)
      const timestamps = steps.map((step) => time(part, step)).join(',')
      const lines = metricsOf(settings).map((metric) => {
        const labels = `"__name__":"${nameOf(metric)}","experiment":"${part.key}","context":"${contextOf(metric)}"`
        const values = steps.map((step) => value(part, metric, step)).join(',')
        return `{"metric":{${labels}},"values":[${values}],"timestamps":[${timestamps}]}\n`
      })
      return [post('/api/v1/import', '', lines.join(''))]
    },
    isAccepted: (status) => status === 204,
  },

  /** The call that MLflow's client makes. It takes at most 1,000 metrics. */
  mlflowBatch: {
    keyCharacters: 32,
    toRequests(settings, part) {
      const metrics = stepsOf(settings, part).flatMap((step) =>
        metricsOf(settings).map(
          (metric) =>
            `{"key":"${nameOf(metric)}","value":${value(part, metric, step)},"timestamp":${time(part, step)},"step":${step}}`,
        ),
      )
      const body = `{"run_id":"${part.key}","metrics":[${metrics.join(',')}]}`
      const head = `authorization: Bearer ${settings.apiKey}\r\ncontent-type: application/json\r\n`
      return [post('/api/2.0/mlflow/runs/log-batch', head, body)]
    },
    isAccepted: (status) => status === 200,
  },

  /** The call that trackio's client makes: one entry per step with all its metrics. */
  trackioBulk: {
    keyCharacters: 8,
    toRequests(settings, part) {
      const { apiKey } = settings
      const entries = stepsOf(settings, part).map((step) => {
        const metrics = metricsOf(settings).map((metric) => `"${nameOf(metric)}":${value(part, metric, step)}`)
        return `{"project":"bench","run":"${part.key}","metrics":{${metrics.join(',')}},"step":${step},"config":null}`
      })
      const head = `content-type: application/json\r\nx-trackio-write-token: ${apiKey}\r\n`
      return [post('/api/bulk_log', head, `{"kwargs":{"logs":[${entries.join(',')}],"hf_token":null}}`)]
    },
    isAccepted: (status, body) => status === 200 && !body.includes('"error"'),
  },
} satisfies Record<string, Dialect>

function post(path: string, head: string, body: string): string {
  return `POST ${path} HTTP/1.1\r\nhost: 127.0.0.1\r\n${head}content-length: ${body.length}\r\n\r\n${body}`
}

const metricsOf = ({ data }: Payload) => Array.from({ length: data.metrics }, (_, metric) => metric)

function stepsOf({ shape }: Payload, { firstStep }: Part): number[] {
  const steps = shape.kind === 'single' ? 1 : shape.stepsPerRequest
  return Array.from({ length: steps }, (_, index) => firstStep + index)
}

const value = ({ experiment }: Part, metric: number, step: number) => valueAt({ experiment, metric, step })
const time = ({ experiment }: Part, step: number) => timestampAt({ experiment, step })

/** What follows the experiment's key in the bodies. */
function serviceBodies(settings: Payload, part: Part): string[] {
  const { shape } = settings
  const metrics = metricsOf(settings)
  const toFields = (metric: number, step: number) =>
    `"metricName":"${nameOf(metric)}","metricValue":${value(part, metric, step)},` +
    `"context":"${contextOf(metric)}","step":${step},"timestamp":${time(part, step)}`
  if (shape.kind === 'single') return metrics.map((metric) => toFields(metric, part.firstStep))
  const steps = stepsOf(settings, part)
  if (shape.kind === 'rows') {
    const rows = steps.flatMap((step) => metrics.map((metric) => `{${toFields(metric, step)}}`))
    return [`"metrics":[${rows.join(',')}]`]
  }
  const timestamps = steps.map((step) => time(part, step)).join(',')
  const series = metrics.map((metric) => {
    const values = steps.map((step) => value(part, metric, step)).join(',')
    return (
      `{"metricName":"${nameOf(metric)}","context":"${contextOf(metric)}","steps":[${steps.join(',')}],` +
      `"timestamps":[${timestamps}],"values":[${values}]}`
    )
  })
  return [`"series":[${series.join(',')}]`]
}

/** The same columns as an Arrow stream, a character for each byte. */
function arrowBody(settings: Payload, part: Part): string {
  const metrics = metricsOf(settings)
  const steps = stepsOf(settings, part)
  const columns = {
    metricName: metrics.map(nameOf),
    context: metrics.map(contextOf),
    steps: metrics.map(() => steps.map(BigInt)),
    timestamps: metrics.map(() => steps.map((step) => BigInt(time(part, step)))),
    values: metrics.map((metric) => steps.map((step) => value(part, metric, step))),
  }
  const types = { steps: list(int64()), timestamps: list(int64()), values: list(float64()) }
  return toArrowStream({ columns, types, metadata: { experimentKey: part.key } }).toString('latin1')
}

const influxPath = '/write?db=bench&precision=ms'

function influxRequests(settings: Payload, part: Part, toFields: (metric: number, step: number) => string) {
  const lines = stepsOf(settings, part).flatMap((step) =>
    metricsOf(settings).map(
      (metric) =>
        `${nameOf(metric)},context=${contextOf(metric)},experiment=${part.key} ${toFields(metric, step)} ${time(part, step)}`,
    ),
  )
  return (settings.shape.kind === 'single' ? lines : [lines.join('\n')]).map((body) => post(influxPath, '', body))
}

function fieldRequests(settings: Payload, part: Part, toLast: (step: number) => string): string[] {
  const lines = stepsOf(settings, part).map((step) => {
    const fields = metricsOf(settings).map((metric) => `${fieldOf(metric)}=${value(part, metric, step)}`)
    return `metrics,experiment=${part.key} ${fields.join(',')}${toLast(step)} ${time(part, step)}`
  })
  return [post(influxPath, '', lines.join('\n'))]
}

const fieldOf = (metric: number) => `${contextOf(metric)}_${nameOf(metric)}`
