import type { ClickHouse } from '../clickhouse/connection.ts'
import type { Reference } from '../clickhouse/monitoring/drift.ts'
import { countEvents } from '../clickhouse/monitoring/scope.ts'
import type { Queries } from '../postgres/database.ts'
import { findMonitoredModel } from '../postgres/monitoring/models.ts'
import { listReferenceSets } from '../postgres/monitoring/reference-sets.ts'

export type FoundReference = Reference & { datasetName: string; lastReceivedAt: number }

type Wanted = {
  workspaceId: string
  modelName: string
  modelVersion: string | undefined
  datasetName: string | undefined
}

/**
 * What a model is compared with: the data set that is named, or the last one uploaded for the model: for this version of it,
 * else for all of them. Undefined when there is none, or nothing in it.
 */
export async function findReference(
  { queries, clickhouse }: { queries: Queries; clickhouse: ClickHouse },
  { workspaceId, modelName, modelVersion, datasetName }: Wanted,
): Promise<FoundReference | undefined> {
  if (datasetName !== undefined) {
    const model = await findMonitoredModel(queries, workspaceId, datasetName)
    return model && (await toReference(clickhouse, model))
  }
  const sets = await listReferenceSets(queries, { workspaceId, modelName })
  const ofVersion = sets.find((it) => modelVersion !== undefined && it.modelVersion === modelVersion)
  const set = ofVersion ?? sets.find((it) => it.modelVersion === '') ?? sets[0]
  return set && (await toReference(clickhouse, { id: set.dataSetId, name: set.dataSetName }))
}

async function toReference(
  clickhouse: ClickHouse,
  { id, name }: { id: bigint; name: string },
): Promise<FoundReference | undefined> {
  const scope = { modelId: id, kind: 'TRAINING_EVENTS' } as const
  const { events, lastReceivedAt } = await countEvents(clickhouse, scope)
  return events === 0 ? undefined : { scope, events, datasetName: name, lastReceivedAt }
}
