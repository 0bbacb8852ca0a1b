import { z } from 'zod'
import { float64, indexedText, int64, list, object, optional, text } from '../../http/body/fields.ts'
import { mlflowTopic, type RouteDescription } from '../../http/route.ts'
import { metricName } from '../points/point.ts'

/** The writes of clients of MLflow that hold metrics. `api/mlflow/` has all their other calls. */

const common = {
  method: 'POST',
  charge: 'own',
  atRoot: true,
  permission: 'caller',
  topic: mlflowTopic,
  shape: 'plain',
} as const

const runId = text(200, 1)
const valueName = indexedText(1_000)
const pairsMax = 10_000
const requestBytesMax = 16 * 1024 * 1024

/** Of a point: newer clients tell of which model and on what data it was measured. */
export const pointFields = {
  key: metricName,
  value: float64,
  timestamp: int64,
  step: optional(int64),
  model_id: optional(text(200)),
  dataset_name: optional(text(1_000)),
  dataset_digest: optional(text(200)),
}
const pair = object({ key: valueName, value: text(1_000_000) })
export const pairs = optional(list(pair, pairsMax))

/** The run, by either of the names that clients have for it. */
const runFields = { run_id: optional(runId), run_uuid: optional(runId) }

export const logMetric = {
  ...common,
  path: '/api/2.0/mlflow/runs/log-metric',
  summary:
    'Logs one point of a metric. A point with the same key, time, step and value is the same point: stored once.',
  body: object({ ...runFields, ...pointFields }),
  answer: z.object({}),
} satisfies RouteDescription

export const logBatch = {
  ...common,
  path: '/api/2.0/mlflow/runs/log-batch',
  summary:
    'Logs points, parameters and tags. All is checked first; a parameter that has another value refuses the request.',
  body: object({
    run_id: runId,
    metrics: optional(list(object(pointFields), Number.POSITIVE_INFINITY)),
    params: pairs,
    tags: pairs,
  }),
  checksOwnBody: true,
  answer: z.object({}),
  bodyBytesMax: requestBytesMax,
} satisfies RouteDescription

export const mlflowDescriptions: RouteDescription[] = [logMetric, logBatch]
