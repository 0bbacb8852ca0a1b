import { eventKinds, valueParts } from '../../store/clickhouse/monitoring/tables.ts'
import { toIdHash } from '../../store/postgres/monitoring/event-claims.ts'
import type { Rounds } from './claim-batches.ts'
import type { Item } from './event.ts'
import type { NewEvent } from './rows.ts'

/** Items with the model that each is of, which may differ from the one it names: a data set is one of its own. */
export type Kept = { item: Item; modelId: bigint }

/** What became of items, by their place in the list, and of the labels among them. */
export type Outcome = { isNew: boolean[]; labels: { accepted: number; duplicates: number } }

/**
 * Stores events and labels, each once for ever. The labels that come with an event are claimed apart from it, as those that
 * come late are: the first labels of a prediction win, wherever they came from.
 *
 * @param isReference for events of a reference set: its labels are a part of each, for nobody sends them later
 */
export async function keepItems(rounds: Rounds, kept: Kept[], isReference = false): Promise<Outcome> {
  const nowMs = Date.now()
  const events: NewEvent[] = []
  /** The place of the event, and of the labels, of each item among the events; -1 for none. */
  const eventPlaces = new Int32Array(kept.length).fill(-1)
  const labelPlaces = new Int32Array(kept.length).fill(-1)
  kept.forEach(({ item, modelId }, at) => {
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
      eventPlaces[at] = add(isReference ? eventKinds.TRAINING_EVENTS : eventKinds.EVENTS, parts)
    }
    if (labels && !isReference) {
      labelPlaces[at] = add(eventKinds.LATE_LABELS, [{ part: valueParts.label, scalars: labels }])
    }
  })
  const isFirst = await rounds.keep(events)
  const counted = { accepted: 0, duplicates: 0 }
  for (const place of labelPlaces) {
    if (place >= 0) counted[isFirst[place] ? 'accepted' : 'duplicates']++
  }
  const isNew = kept.map((_, at) => {
    const place = eventPlaces[at] as number
    return isFirst[place >= 0 ? place : (labelPlaces[at] as number)] === true
  })
  return { isNew, labels: counted }
}
