import { compare } from '../../../runtime/compare.ts'
import type { Queries } from '../database.ts'
import { type RunStore, setValues } from '../experiments/values.ts'
import { toOtherName } from './tag-names.ts'

export type KeyValue = { key: string; value: string }

/** A parameter has another value already. None of those given was stored. */
export class ParameterChanged extends Error {
  readonly parameter: string
  readonly stored: string

  constructor(parameter: string, stored: string) {
    super(`the parameter ${parameter} has another value`)
    this.parameter = parameter
    this.stored = stored
  }
}

/**
 * Logs parameters and tags of a run, all or none. A parameter keeps its first value; of a tag the last one counts.
 *
 * @throws ParameterChanged, ValuesFull
 */
export async function logRunValues(
  { database, room }: RunStore,
  experimentId: bigint,
  { params = [], tags = [] }: { params?: KeyValue[]; tags?: KeyValue[] },
  nowMs: number,
): Promise<void> {
  if (params.length + tags.length === 0) return
  const others = tags.map(({ key, value }) => ({
    name: toOtherName(key),
    context: undefined,
    value,
    timestampMs: nowMs,
  }))
  await room.take(experimentId, [
    ...params.map(({ key, value }) => ({ kind: 'parameter' as const, name: key, texts: [value] })),
    ...others.map(({ name, value }) => ({ kind: 'other' as const, name, texts: [value] })),
  ])
  await database.transaction(async (queries) => {
    await insertParameters(queries, experimentId, params, nowMs)
    await setValues(queries, experimentId, 'other', others)
  })
}

/** @throws ParameterChanged */
async function insertParameters(queries: Queries, experimentId: bigint, params: KeyValue[], nowMs: number) {
  if (params.length === 0) return
  // In one order, so that two writes of the same names do not wait for each other.
  const sorted = [...params].sort((one, other) => compare(one.key, other.key))
  const [keys, values] = [sorted.map((it) => it.key), sorted.map((it) => it.value)]
  await queries.row(
    `INSERT INTO experiment_values (experiment_id, kind, name, value, timestamp_ms)
     SELECT $1, 'parameter', given.key, given.value, $4 FROM unnest($2::text[], $3::text[]) AS given(key, value)
     ON CONFLICT DO NOTHING`,
    [experimentId, keys, values, nowMs],
  )
  const stored = await queries.rows<KeyValue>(
    `SELECT name AS key, value FROM experiment_values
     WHERE experiment_id = $1 AND kind = 'parameter' AND name = ANY($2)`,
    [experimentId, keys],
  )
  const known = new Map(stored.map((it) => [it.key, it.value]))
  for (const { key, value } of params) {
    const first = known.get(key)
    if (first !== undefined && first !== value) throw new ParameterChanged(key, first)
  }
}

/** A metric that a run measured of a model, perhaps on a dataset. */
export type ModelMetric = {
  modelId: string
  name: string
  datasetName: string
  datasetDigest: string
  value: number
  step: number | bigint
  timestampMs: number | bigint
}

/** Stores the values of models that are newer than those known. Models that are not there are left out. */
export async function upsertModelMetrics(
  queries: Queries,
  experimentId: bigint,
  metrics: ModelMetric[],
): Promise<void> {
  for (const it of metrics) {
    await queries.row(
      `INSERT INTO logged_model_metrics AS m
         (model_id, experiment_id, name, dataset_name, dataset_digest, value, step, timestamp_ms)
       SELECT l.id, $2, $3, $4, $5, $6, $7, $8 FROM logged_models l
       JOIN experiments e ON e.id = l.experiment_id JOIN experiments r ON r.id = $2 AND r.project_id = e.project_id
       WHERE l.id = $1
       ON CONFLICT (model_id, experiment_id, name, dataset_name, dataset_digest) DO UPDATE
         SET value = excluded.value, step = excluded.step, timestamp_ms = excluded.timestamp_ms
         WHERE (m.step, m.timestamp_ms) <= (excluded.step, excluded.timestamp_ms)`,
      [it.modelId, experimentId, it.name, it.datasetName, it.datasetDigest, String(it.value), it.step, it.timestampMs],
    )
  }
}
