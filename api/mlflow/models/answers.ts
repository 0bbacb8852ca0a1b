import { z } from 'zod'
import { toJsonInteger } from '../../../http/body/exact-json.ts'
import {
  type LoggedModel,
  type LoggedModelMetric,
  loggedModelStatuses,
} from '../../../store/postgres/mlflow/logged-models.ts'
import { pairAnswer, toFloat, toLocation, toPairs } from '../answers.ts'

export const loggedModelAnswer = z.object({
  info: z.object({
    model_id: z.string(),
    experiment_id: z.string(),
    name: z.string(),
    creation_timestamp_ms: z.int(),
    last_updated_timestamp_ms: z.int(),
    artifact_uri: z.string(),
    status: z.enum(loggedModelStatuses),
    model_type: z.string().optional(),
    source_run_id: z.string().optional(),
    tags: z.array(pairAnswer),
  }),
  data: z.object({
    params: z.array(pairAnswer),
    metrics: z.array(
      z.object({
        key: z.string(),
        value: z.union([z.number(), z.string()]).describe('NaN and the infinities as strings'),
        timestamp: z.int(),
        step: z.int(),
        model_id: z.string(),
        run_id: z.string(),
        dataset_name: z.string().optional(),
        dataset_digest: z.string().optional(),
      }),
    ),
  }),
})

export const toModelUri = ({ id, projectId, artifactLocation }: LoggedModel) =>
  `${toLocation(projectId, artifactLocation).replace(/\/$/, '')}/models/${id}/artifacts`

export function toLoggedModel(model: LoggedModel, metrics: LoggedModelMetric[]): z.input<typeof loggedModelAnswer> {
  return {
    info: {
      model_id: model.id,
      experiment_id: model.projectId,
      name: model.name,
      creation_timestamp_ms: toJsonInteger(model.createdAtMs),
      last_updated_timestamp_ms: toJsonInteger(model.updatedAtMs),
      artifact_uri: toModelUri(model),
      status: model.status,
      ...(model.modelType !== null && { model_type: model.modelType }),
      ...(model.isOfRun && { source_run_id: model.runKey }),
      tags: toPairs(Object.entries(model.tags)),
    },
    data: {
      params: toPairs(Object.entries(model.params)),
      metrics: metrics.map((it) => ({
        key: it.name,
        value: toFloat(it.value),
        timestamp: toJsonInteger(it.timestampMs),
        step: toJsonInteger(it.step),
        model_id: it.modelId,
        run_id: it.runKey,
        ...(it.datasetName !== '' && { dataset_name: it.datasetName, dataset_digest: it.datasetDigest }),
      })),
    },
  }
}
