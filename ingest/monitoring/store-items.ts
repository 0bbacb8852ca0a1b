import { eventKinds, valueParts } from '../../store/clickhouse/monitoring/tables.ts'
import { toIdHash } from '../../store/postgres/monitoring/event-claims.ts'
import type { ClaimBatches } from './claim-batches.ts'
import type { Item } from './event.ts'
import type { NewEvent } from './rows.ts'

/** An item with the model it is stored for. For training events that is the data set, not the model named in the item. */
export type ModelItem = { item: Item; modelId: bigint }

/** Which items are new, by their index, and how many of the labels among them. */
export type Stored = { isNew: boolean[]; labels: { accepted: number; duplicates: number } }

/**
 * Stores events and labels that are the first with their prediction id. Labels sent with an event are claimed apart from it,
 * like late labels: the first labels of a prediction are stored, in whichever request they came.
 *
 * @param isReference true for events of a reference set: labels are stored as a part of the event, for none come later
 * @throws HttpError `unavailable`: the same items may be sent again
 */
export async function storeItems(claimBatches: ClaimBatches, items: ModelItem[], isReference = false): Promise<Stored> {
  const nowMs = Date.now()
  const events: NewEvent[] = []
  /** For each item the index of its event and of its labels in `events`; -1 for none. */
  const eventIndexes = new Int32Array(items.length).fill(-1)
  const labelIndexes = new Int32Array(items.length).fill(-1)
  items.forEach(({ item, modelId }, at) => {
    const { predictionId, modelVersion: version, features, prediction, labels } = item
    const idHash = toIdHash(predictionId)
    const timestampMs = item.timestampMs ?? nowMs
    const add = (kind: number, parts: NewEvent['parts']) =>
      events.push({ modelId, kind, idHash, predictionId, version, timestampMs, parts }) - 1
    if (item.isEvent || isReference) {
      const parts: NewEvent['parts'] = []
      if (features) parts.push({ part: valueParts.feature, scalars: features })
      if (prediction) parts.push({ part: valueParts.prediction, scalars: prediction })
      if (labels && isReference) parts.push({ part: valueParts.label, scalars: labels })
      eventIndexes[at] = add(isReference ? eventKinds.TRAINING_EVENTS : eventKinds.EVENTS, parts)
    }
    if (labels && !isReference) {
      labelIndexes[at] = add(eventKinds.LATE_LABELS, [{ part: valueParts.label, scalars: labels }])
    }
  })
  const isFirst = await claimBatches.store(events)
  const labels = { accepted: 0, duplicates: 0 }
  for (const index of labelIndexes) {
    if (index >= 0) labels[isFirst[index] ? 'accepted' : 'duplicates']++
  }
  const isNew = items.map((_, at) => {
    const index = eventIndexes[at] as number
    return isFirst[index >= 0 ? index : (labelIndexes[at] as number)] === true
  })
  return { isNew, labels }
}
