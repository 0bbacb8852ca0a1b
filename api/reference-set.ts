import { Refusal } from '../http/errors.ts'
import type { ClickHouse } from '../store/clickhouse/connection.ts'
import type { Reference } from '../store/clickhouse/drift-reads.ts'
import { countEvents } from '../store/clickhouse/event-scope.ts'
import type { Queries } from '../store/postgres/database.ts'
import { findMonitoredModel } from '../store/postgres/monitored-models.ts'
import { listReferenceSets } from '../store/postgres/reference-sets.ts'

export type FoundReference = Reference & { datasetName: string; lastReceivedAt: number }

type Wanted = {
  workspaceId: string
  modelName: string
  modelVersion: string | undefined
  datasetName: string | undefined
}

/**
 * What a model is compared with: the data set that is named, or the last one uploaded for the model: for this version of it,
 * else for all of them.
 *
 * @throws Refusal `referenceUnknown`
 */
export async function findReference(
  { queries, clickhouse }: { queries: Queries; clickhouse: ClickHouse },
  { workspaceId, modelName, modelVersion, datasetName }: Wanted,
): Promise<FoundReference> {
  if (datasetName !== undefined) {
    const model = await findMonitoredModel(queries, workspaceId, datasetName)
    const found = model && (await toReference(clickhouse, model))
    if (found) return found
    throw new Refusal(
      'referenceUnknown',
      `datasetName: the workspace has no data set "${datasetName.slice(0, 200)}" of TRAINING_EVENTS: upload it with POST /mpm/v2/dataset/events/csv.`,
    )
  }
  const sets = await listReferenceSets(queries, { workspaceId, modelName })
  const ofVersion = sets.find((it) => modelVersion !== undefined && it.modelVersion === modelVersion)
  const set = ofVersion ?? sets.find((it) => it.modelVersion === '') ?? sets[0]
  const found = set && (await toReference(clickhouse, { id: set.dataSetId, name: set.dataSetName }))
  if (found) return found
  throw new Refusal(
    'referenceUnknown',
    `The model "${modelName.slice(0, 200)}" has no reference data set: upload one with POST /mpm/v2/dataset/events/csv, or name one with datasetName.`,
  )
}

async function toReference(
  clickhouse: ClickHouse,
  { id, name }: { id: bigint; name: string },
): Promise<FoundReference | undefined> {
  const scope = { modelId: id, kind: 'TRAINING_EVENTS' } as const
  const { events, lastReceivedAt } = await countEvents(clickhouse, scope)
  return events === 0 ? undefined : { scope, events, datasetName: name, lastReceivedAt }
}
