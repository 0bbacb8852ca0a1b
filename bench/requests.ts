import { dataSet, metricContexts, metricNames, timestampAt, valueAt } from './curves.ts'

/**
 * The data set as finished HTTP requests, written before the clock starts. When all have been sent they are sent again
 * to the next hundred experiments: only the key in them is overwritten, which costs the generator next to nothing.
 */
export type Shape = { kind: 'single' } | { kind: 'rows' | 'columns'; stepsPerRequest: number }

export type RequestPool = {
  count: number
  /** The request at `index`, addressed to the experiment with this key. */
  take(index: number, experimentKey: string): Buffer
  /** Which of the hundred experiments it belongs to, from 0. */
  experimentOf(index: number): number
  pointsPerRequest: number
}

const experimentKeyCharacters = 32

/** Single points are 400 bytes each with their head: so many steps of the data set fit into 200 MB. */
const singleSteps = 100

export function pointsInPool(shape: Shape): number {
  return dataSet.experiments * dataSet.metrics * (shape.kind === 'single' ? singleSteps : dataSet.steps)
}

export function createRequestPool(shape: Shape, apiKey: string): RequestPool {
  const writer = createPoolWriter()
  const placeholder = 'x'.repeat(experimentKeyCharacters)
  const steps = shape.kind === 'single' ? singleSteps : dataSet.steps
  const stepsPerRequest = shape.kind === 'single' ? 1 : shape.stepsPerRequest
  // As it comes from trainings that run side by side: a step (or some steps) of each experiment in turn.
  for (let first = 0; first < steps; first += stepsPerRequest) {
    for (let experiment = 0; experiment < dataSet.experiments; experiment++) {
      for (const body of toBodies(shape, experiment, first)) {
        writer.add(experiment, toRequest(shape, apiKey, `{"experimentKey":"${placeholder}",${body}}`))
      }
    }
  }
  const keyOffset = toRequest(shape, apiKey, '').length + '{"experimentKey":"'.length
  return { ...writer.finish(keyOffset), pointsPerRequest: pointsPerRequest(shape) }
}

function pointsPerRequest(shape: Shape): number {
  return shape.kind === 'single' ? 1 : shape.stepsPerRequest * dataSet.metrics
}

const contentLengthDigits = 7

function toRequest(shape: Shape, apiKey: string, body: string): string {
  const path = shape.kind === 'single' ? 'metric' : 'metrics/batch'
  // All heads are of one length, so the key stands at the same place in all requests.
  const contentLength = String(body.length).padStart(contentLengthDigits, '0')
  return (
    `POST /api/rest/v2/write/experiment/${path} HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: ${apiKey}\r\n` +
    `content-type: application/json\r\ncontent-length: ${contentLength}\r\n\r\n${body}`
  )
}

/** What follows the experiment's key in the bodies of one experiment, from one step on. */
function toBodies(shape: Shape, experiment: number, firstStep: number): string[] {
  const metrics = metricNames.map((_, metric) => metric)
  if (shape.kind === 'single') return metrics.map((metric) => toFields(experiment, metric, firstStep))
  const steps = Array.from({ length: shape.stepsPerRequest }, (_, index) => firstStep + index)
  if (shape.kind === 'rows') {
    const rows = steps.flatMap((step) => metrics.map((metric) => `{${toFields(experiment, metric, step)}}`))
    return [`"metrics":[${rows.join(',')}]`]
  }
  const timestamps = steps.map((step) => timestampAt({ experiment, step })).join(',')
  const series = metrics.map((metric) => {
    const values = steps.map((step) => valueAt({ experiment, metric, step })).join(',')
    return (
      `{"metricName":"${metricNames[metric]}","context":"${metricContexts[metric]}","steps":[${steps.join(',')}],` +
      `"timestamps":[${timestamps}],"values":[${values}]}`
    )
  })
  return [`"series":[${series.join(',')}]`]
}

function toFields(experiment: number, metric: number, step: number): string {
  return (
    `"metricName":"${metricNames[metric]}","metricValue":${valueAt({ experiment, metric, step })},` +
    `"context":"${metricContexts[metric]}","step":${step},"timestamp":${timestampAt({ experiment, step })}`
  )
}

/** One large buffer instead of a million small ones. */
function createPoolWriter() {
  let bytes = Buffer.allocUnsafe(16 * 1024 * 1024)
  let used = 0
  const starts: number[] = []
  const experiments: number[] = []
  return {
    add(experiment: number, request: string) {
      if (used + request.length > bytes.length) {
        const larger = Buffer.allocUnsafe(bytes.length * 2 + request.length)
        bytes.copy(larger, 0, 0, used)
        bytes = larger
      }
      starts.push(used)
      experiments.push(experiment)
      used += bytes.write(request, used, 'latin1')
    },

    finish(keyOffset: number): Omit<RequestPool, 'pointsPerRequest'> {
      starts.push(used)
      return {
        count: experiments.length,
        take(index, experimentKey) {
          const start = starts[index] as number
          bytes.write(experimentKey, start + keyOffset, 'latin1')
          return bytes.subarray(start, starts[index + 1])
        },
        experimentOf: (index) => experiments[index] as number,
      }
    },
  }
}
