import { countEventsOfWindows } from './event-counts.ts'
import { windowIndex } from './expressions.ts'
import type { EventReader } from './reader.ts'
import { type EventScope, inWindows, type Windows } from './scope.ts'
import { eventRows } from './source.ts'

export const delayLevels = [0.1, 0.5, 0.9, 0.99] as const

export type DelayWindow = {
  predictions: number
  /** Predictions with a label. */
  labelled: number
  /** Of the time from a prediction to its label in ms, for each of `delayLevels`; empty without a label. */
  quantiles: number[]
  longest: number | null
}

/** Reads which predictions of each window have labels, and how long these took, by the times of both events. */
export async function readDelays(
  reader: EventReader,
  { scope, windows }: { scope: EventScope; windows: Windows },
): Promise<DelayWindow[]> {
  const predicted = inWindows(scope, windows)
  // Labels may come long after, and may name another version.
  const labelled: EventScope = { modelId: scope.modelId, kind: 'LATE_LABELS' }
  const [counts, ofPredicted, ofLabelled] = await Promise.all([
    countEventsOfWindows(reader, scope, windows),
    reader.findCatalog(predicted),
    reader.findCatalog(labelled),
  ])
  const columns = 'timestamp, id_hash'
  const sources = [
    { ...eventRows(predicted, ofPredicted), columns },
    { ...eventRows(labelled, ofLabelled), columns },
  ]
  const rows = await reader.read<{ w: number; n: string; quantiles: string[]; longest: string }>(
    sources,
    ([events, labels]) => `SELECT w, count() AS n, max(delay) AS longest,
        quantilesExactLow(${delayLevels.join(', ')})(delay) AS quantiles
      FROM (
        SELECT ${windowIndex(windows)} AS w, l.at - timestamp AS delay FROM ${events} AS e
        INNER JOIN (SELECT id_hash, min(timestamp) AS at FROM ${labels} GROUP BY id_hash) AS l ON e.id_hash = l.id_hash)
      GROUP BY w`,
  )
  const found = new Map(rows.map((it) => [Number(it.w), it]))
  return counts.map((predictions, at) => {
    const it = found.get(at)
    return {
      predictions,
      labelled: Number(it?.n ?? 0),
      quantiles: (it?.quantiles ?? []).map(Number),
      longest: it ? Number(it.longest) : null,
    }
  })
}
