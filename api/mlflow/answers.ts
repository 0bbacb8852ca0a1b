import { z } from 'zod'
import { toJsonInteger } from '../../http/body/exact-json.ts'
import type { HistoryPoint } from '../../store/clickhouse/points/history.ts'
import { toAliveSince } from '../../store/postgres/experiments/heartbeats.ts'
import type { MlflowExperiment } from '../../store/postgres/mlflow/experiments.ts'
import type { MlflowRun, RunDetails, RunStatus } from '../../store/postgres/mlflow/runs.ts'
import { toTagName } from '../../store/postgres/mlflow/tag-names.ts'

/** The records of MLflow, as JSON of its messages. */

export const pairAnswer = z.object({ key: z.string(), value: z.string() })

export const metricAnswer = z.object({
  key: z.string(),
  value: z.union([z.number(), z.string()]).describe('NaN and the infinities as strings'),
  timestamp: z.int(),
  step: z.int(),
})

export const experimentAnswer = z.object({
  experiment_id: z.string(),
  name: z.string(),
  artifact_location: z.string(),
  lifecycle_stage: z.enum(['active', 'deleted']),
  creation_time: z.int(),
  last_update_time: z.int(),
  tags: z.array(pairAnswer),
  workspace: z.string(),
})

export const runInfoAnswer = z.object({
  run_id: z.string(),
  run_uuid: z.string(),
  run_name: z.string(),
  experiment_id: z.string(),
  user_id: z.string(),
  status: z.enum(['RUNNING', 'SCHEDULED', 'FINISHED', 'FAILED', 'KILLED']),
  start_time: z.int(),
  end_time: z.int().optional(),
  artifact_uri: z.string(),
  lifecycle_stage: z.enum(['active', 'deleted']),
})

const datasetAnswer = z.object({
  name: z.string(),
  digest: z.string(),
  source_type: z.string(),
  source: z.string(),
  schema: z.string().optional(),
  profile: z.string().optional(),
})

export const runAnswer = z.object({
  info: runInfoAnswer,
  data: z.object({ metrics: z.array(metricAnswer), params: z.array(pairAnswer), tags: z.array(pairAnswer) }),
  inputs: z.object({
    dataset_inputs: z.array(z.object({ tags: z.array(pairAnswer), dataset: datasetAnswer })),
    model_inputs: z.array(z.object({ model_id: z.string() })),
  }),
  outputs: z.object({ model_outputs: z.array(z.object({ model_id: z.string(), step: z.int() })) }),
})

/** Where the files of an experiment are, unless whoever created it chose another place. */
export const toLocation = (id: string, chosen: string | null) => chosen ?? `mlflow-artifacts:/${id}`

export const toPairs = (named: Iterable<[string, string]>) => [...named].map(([key, value]) => ({ key, value }))

/** @param isOwn false: of another workspace than the call is about, so its name holds that one's */
export function toExperiment(it: MlflowExperiment, isOwn: boolean): z.input<typeof experimentAnswer> {
  return {
    experiment_id: it.id,
    name: isOwn ? it.name : `${it.workspaceName}/${it.name}`,
    artifact_location: toLocation(it.id, it.artifactLocation),
    lifecycle_stage: it.isDeleted ? 'deleted' : 'active',
    creation_time: it.createdAtMs,
    last_update_time: it.updatedAtMs,
    tags: toPairs(Object.entries(it.tags)),
    workspace: it.workspaceName,
  }
}

function toStatus(run: MlflowRun, nowMs: number): RunStatus {
  if (run.reportedStatus !== null) return run.reportedStatus
  if (run.hasCrashed) return 'FAILED'
  if (run.aliveAtMs === null) return 'FINISHED'
  return Number(run.aliveAtMs) > toAliveSince(nowMs) ? 'RUNNING' : 'KILLED'
}

export const toArtifactUri = (run: MlflowRun) =>
  `${toLocation(run.projectId, run.artifactLocation).replace(/\/$/, '')}/${run.key}/artifacts`

export function toRunInfo(run: MlflowRun, nowMs: number): z.input<typeof runInfoAnswer> {
  const status = toStatus(run, nowMs)
  const end = run.endTimeMs ?? (status === 'RUNNING' || status === 'SCHEDULED' ? null : run.activeAtMs)
  return {
    run_id: run.key,
    run_uuid: run.key,
    run_name: run.name,
    experiment_id: run.projectId,
    user_id: run.userName,
    status,
    start_time: toJsonInteger(run.startTimeMs),
    ...(end !== null && { end_time: toJsonInteger(end) }),
    artifact_uri: toArtifactUri(run),
    lifecycle_stage: run.isDeleted ? 'deleted' : 'active',
  }
}

export const toFloat = (value: number) => (Number.isFinite(value) ? value : String(value))

export const toMetric = (key: string, { value, step, timeMs }: HistoryPoint): z.input<typeof metricAnswer> => ({
  key,
  value: toFloat(value),
  timestamp: toJsonInteger(timeMs),
  step: toJsonInteger(step),
})

export function toRun(
  run: MlflowRun,
  details: RunDetails,
  latest: Map<string, HistoryPoint> | undefined,
  nowMs: number,
): z.input<typeof runAnswer> {
  const { models } = details
  return {
    info: toRunInfo(run, nowMs),
    data: {
      metrics: [...(latest ?? [])].map(([key, point]) => toMetric(key, point)),
      params: toPairs(details.params),
      // A run that was renamed has its new name here too.
      tags: toPairs(details.tags.set(toTagName('Name'), run.name)),
    },
    inputs: {
      dataset_inputs: details.datasets.map(({ tags, sourceType, schema, profile, ...dataset }) => ({
        tags: toPairs(Object.entries(tags)),
        dataset: {
          ...dataset,
          source_type: sourceType,
          ...(schema !== null && { schema }),
          ...(profile !== null && { profile }),
        },
      })),
      model_inputs: models.filter((it) => !it.isOutput).map(({ modelId }) => ({ model_id: modelId })),
    },
    outputs: {
      model_outputs: models
        .filter((it) => it.isOutput)
        .map(({ modelId, step }) => ({ model_id: modelId, step: toJsonInteger(step) })),
    },
  }
}
