import { z } from 'zod'
import { describeFieldError, list, object, optional, text, toFieldError } from '../../http/body/fields.ts'
import { HttpError } from '../../http/errors.ts'
import type { KeyValue, ModelMetric } from '../../store/postgres/mlflow/run-values.ts'
import { isPlainInteger, isPlainName, isPlainValue, type Point } from '../points/point.ts'
import type { PointRows } from '../points/rows.ts'
import { pairs, pointFields } from './descriptions.ts'

/**
 * Clients of MLflow send a request again when its answer is lost, and name no request. For MLflow a point is its key, time, step
 * and value: so a point is its own identity, and equal ones are stored once, whether of one request or of several.
 */
export type MlflowPoints = { experimentKey: string; rows: PointRows; ofModels: ModelMetric[] }

export type MlflowBatch = MlflowPoints & { params: KeyValue[]; tags: KeyValue[] }

const pointsMax = 100_000
const point = object(pointFields)
type GivenPoint = z.output<typeof point>

const envelope = object({
  run_id: text(200, 1),
  metrics: optional(list(z.unknown(), pointsMax)),
  params: pairs,
  tags: pairs,
})

/** @throws HttpError that names the field */
export function readLogBatch(body: unknown): MlflowBatch {
  const checked = envelope.safeParse(body ?? {})
  if (!checked.success) throw toFieldError(checked.error, body)
  const { run_id: experimentKey, metrics = [], params = [], tags = [] } = checked.data
  const read: MlflowBatch = { experimentKey, rows: { points: [], rowIndexes: [] }, ofModels: [], params, tags }
  for (const [at, raw] of metrics.entries()) {
    const plain = readPlain(raw)
    if (plain) {
      addPoint(read, plain)
      continue
    }
    const given = point.safeParse(raw)
    if (!given.success) throw new HttpError('badRequest', describeFieldError(given.error, `metrics[${at}]`))
    add(read, given.data)
  }
  return read
}

export function readLogMetric({
  run_id,
  run_uuid,
  ...given
}: GivenPoint & { run_id: string | undefined; run_uuid: string | undefined }): MlflowPoints {
  const experimentKey = run_id || run_uuid
  if (!experimentKey) throw new HttpError('badRequest', 'run_id: is missing')
  const read = { experimentKey, rows: { points: [], rowIndexes: [] }, ofModels: [] }
  add(read, given)
  return read
}

function add(to: MlflowPoints, { key, value, timestamp, step = 0, model_id, ...dataset }: GivenPoint) {
  addPoint(to, toPoint(key, value, timestamp, step))
  if (!model_id) return
  const { dataset_name: datasetName = '', dataset_digest: datasetDigest = '' } = dataset
  to.ofModels.push({ modelId: model_id, name: key, value, step, timestampMs: timestamp, datasetName, datasetDigest })
}

function addPoint({ rows }: MlflowPoints, it: Point) {
  rows.points.push(it)
  // Equal points are the same, so their place among them is no part of their identity.
  rows.rowIndexes.push(0)
}

/** A point that needs no conversion and is of no model; undefined for every other, right or wrong. */
function readPlain(raw: unknown): Point | undefined {
  if (typeof raw !== 'object' || raw === null) return undefined
  const { key, value, timestamp, step, model_id } = raw as Record<string, unknown>
  if (model_id || !isPlainName(key) || !isPlainValue(value) || timestamp == null) return undefined
  if (!isPlainInteger(timestamp) || !isPlainInteger(step)) return undefined
  return toPoint(key, value, timestamp, step ?? 0)
}

const toPoint = (metric: string, value: number, timestamp: number | bigint, step: number | bigint): Point => ({
  metric,
  context: '',
  value,
  step,
  epoch: undefined,
  timestamp,
})
