import type { Reference } from '../clickhouse/monitoring/drift/profiles.ts'
import { countEvents } from '../clickhouse/monitoring/event-counts.ts'
import type { EventReader } from '../clickhouse/monitoring/reader.ts'
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
 * Finds the reference of a model: the named data set, or the last one uploaded for this version of the model, or else for
 * all versions, or else for another one. Undefined if there is none, or if it is empty.
 */
export async function findReference(
  { queries, reader }: { queries: Queries; reader: EventReader },
  { workspaceId, modelName, modelVersion, datasetName }: Wanted,
): Promise<FoundReference | undefined> {
  if (datasetName !== undefined) {
    const model = await findMonitoredModel(queries, workspaceId, datasetName)
    return model && (await toReference(reader, model))
  }
  const sets = await listReferenceSets(queries, { workspaceId, modelName })
  const ofVersion = sets.find((it) => modelVersion !== undefined && it.modelVersion === modelVersion)
  const set = ofVersion ?? sets.find((it) => it.modelVersion === '') ?? sets[0]
  return set && (await toReference(reader, { id: set.dataSetId, name: set.dataSetName }))
}

async function toReference(
  reader: EventReader,
  { id, name }: { id: bigint; name: string },
): Promise<FoundReference | undefined> {
  const scope = { modelId: id, kind: 'TRAINING_EVENTS' } as const
  const { events, lastReceivedAt } = await countEvents(reader, scope)
  return events === 0 ? undefined : { scope, events, datasetName: name, lastReceivedAt }
}
