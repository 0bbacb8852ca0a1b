import type { ClickHouse } from '../../connection.ts'
import { isAmong, listParts } from '../../parts.ts'
import type { ModelEvents } from '../scope.ts'
import { type EventKind, eventKinds, eventsTable } from '../tables.ts'

/**
 * Lists the models that got events, by reading the new parts: the cost grows with what was added, not with what is stored. A
 * model is listed until it got nothing for `settledMs`; after a start all models are.
 */
export function createChanges(clickhouse: ClickHouse, settledMs: number) {
  const kindNames = new Map(Object.entries(eventKinds).map(([name, code]) => [Number(code), name as EventKind]))
  const changed = new Map<string, ModelEvents & { atMs: number }>()
  let seen = new Set<string>()

  return {
    async list(): Promise<ModelEvents[]> {
      const parts = await listParts(clickhouse, [eventsTable.name])
      const fresh = parts.filter((it) => !seen.has(it.id))
      if (fresh.length > 0) {
        // A part that is merged meanwhile is in a part that is new the next time.
        const rows = await clickhouse.rows<{ modelId: string; kind: number }>(
          `SELECT DISTINCT model_id AS modelId, kind FROM ${clickhouse.database}.${eventsTable.name} WHERE ${isAmong(fresh)}`,
        )
        for (const { modelId, kind } of rows) {
          const name = kindNames.get(Number(kind))
          if (!name) continue
          changed.set(`${modelId} ${name}`, { modelId: BigInt(modelId), kind: name, atMs: Date.now() })
        }
      }
      seen = new Set(parts.map((it) => it.id))
      return [...changed.values()].map(({ modelId, kind }) => ({ modelId, kind }))
    },

    /** The model was rolled up. It is still listed while some of its events may have to settle. */
    done({ modelId, kind }: ModelEvents) {
      const key = `${modelId} ${kind}`
      const atMs = changed.get(key)?.atMs
      if (atMs !== undefined && Date.now() - atMs > settledMs) changed.delete(key)
    },
  }
}
