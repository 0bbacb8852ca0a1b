import type { ClickHouse } from '../../connection.ts'
import { isAmong, listParts } from '../../parts.ts'
import { type EventKind, eventKinds, eventsTable } from '../tables.ts'

export type ChangedModel = { modelId: bigint; kind: EventKind }

/**
 * Tells of which models events came, by the parts that are new: what it costs grows with what came, not with what is there.
 * A model is told again and again until nothing has come for `settledMs`; after a start all of them are.
 */
export function createChanges(clickhouse: ClickHouse, settledMs: number) {
  const kindNames = new Map(Object.entries(eventKinds).map(([name, code]) => [Number(code), name as EventKind]))
  const changed = new Map<string, ChangedModel & { atMs: number }>()
  let seen = new Set<string>()

  return {
    async list(): Promise<ChangedModel[]> {
      const parts = (await listParts(clickhouse, [eventsTable.name])).get(eventsTable.name) ?? []
      const fresh = parts.filter((it) => !seen.has(it.id))
      if (fresh.length > 0) {
        // The rows of a part that went away meanwhile are in one that is new the next time.
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

    /** The model was looked after; it is told again as long as some of its events may have to settle. */
    done({ modelId, kind }: ChangedModel) {
      const key = `${modelId} ${kind}`
      const atMs = changed.get(key)?.atMs
      if (atMs !== undefined && Date.now() - atMs > settledMs) changed.delete(key)
    },
  }
}
