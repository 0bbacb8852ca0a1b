import type { z } from 'zod'
import { HttpError } from '../../../http/errors.ts'
import type { Queries } from '../../../store/postgres/database.ts'
import {
  type LoggedModel,
  type LoggedModelMetric,
  listLoggedModelMetrics,
  listLoggedModels,
} from '../../../store/postgres/mlflow/logged-models.ts'
import { parseFilter, parseOrder, readTokenPage, sortBy } from '../filter.ts'
import { type loggedModelAnswer, toLoggedModel } from './answers.ts'

type Dataset = { dataset_name: string; dataset_digest?: string | undefined }

export type ModelSearch = {
  filter: string
  /** Metrics of the filter are those measured on one of these; none: on any. */
  datasets: Dataset[]
  order: {
    field_name: string
    ascending?: boolean | undefined
    dataset_name?: string | undefined
    dataset_digest?: string | undefined
  }[]
  token: string | undefined
  size: number
}

type Found = { models: z.input<typeof loggedModelAnswer>[]; next_page_token?: string }

/** The logged models of projects that match a filter: the newest first unless ordered. */
export async function searchLoggedModels(queries: Queries, projectIds: string[], search: ModelSearch): Promise<Found> {
  const matches = parseFilter(search.filter)
  const models = await listLoggedModels(queries, projectIds)
  const all = await listLoggedModelMetrics(
    queries,
    models.map((it) => it.id),
  )
  const metricsOf = Map.groupBy(all, (it) => it.modelId)
  const readerOn = (datasets: Dataset[]) => (model: LoggedModel) =>
    toReader(
      model,
      (metricsOf.get(model.id) ?? []).filter((it) => isOn(datasets, it)),
    )
  const found = models.filter((it) => {
    const isMeasured =
      search.datasets.length === 0 || (metricsOf.get(it.id) ?? []).some((of) => isOn(search.datasets, of))
    return isMeasured && matches(readerOn(search.datasets)(it))
  })
  // Sorted by the last key first: a sort keeps the order of equals.
  const newestFirst = sortBy(found, ['creation_timestamp DESC', 'model_id'], readerOn([]))
  const sorted = search.order.toReversed().reduce((sorted, it) => {
    const { source, name } = parseOrder(it.field_name)
    if (it.dataset_name !== undefined && source !== 'metric') {
      throw new HttpError('badRequest', 'order_by: dataset_name goes with a metric only')
    }
    const on =
      it.dataset_name === undefined ? [] : [{ dataset_name: it.dataset_name, dataset_digest: it.dataset_digest }]
    const field = `${source}.\`${name}\` ${it.ascending === false ? 'DESC' : 'ASC'}`
    return sortBy(sorted, [field], readerOn(on))
  }, newestFirst)
  const { page, next } = readTokenPage(sorted, search.token, search.size)
  return {
    models: page.map((it) => toLoggedModel(it, metricsOf.get(it.id) ?? [])),
    ...(next !== undefined && { next_page_token: next }),
  }
}

function isOn(datasets: Dataset[], metric: LoggedModelMetric): boolean {
  if (datasets.length === 0) return true
  return datasets.some(
    (it) =>
      it.dataset_name === metric.datasetName && (!it.dataset_digest || it.dataset_digest === metric.datasetDigest),
  )
}

function toReader(model: LoggedModel, metrics: LoggedModelMetric[]) {
  const attributes: Record<string, string | number | undefined> = {
    name: model.name,
    model_id: model.id,
    model_type: model.modelType ?? undefined,
    status: model.status.replace('LOGGED_MODEL_', ''),
    source_run_id: model.isOfRun ? model.runKey : undefined,
    experiment_id: model.projectId,
    creation_timestamp: Number(model.createdAtMs),
    creation_time: Number(model.createdAtMs),
    last_updated_timestamp: Number(model.updatedAtMs),
  }
  return (source: string, name: string): string | number | undefined => {
    if (source === 'metric') return metrics.findLast((it) => it.name === name)?.value
    if (source === 'parameter') return model.params[name]
    return source === 'tag' ? model.tags[name] : attributes[name]
  }
}
