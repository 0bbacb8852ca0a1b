import { and, ofFeatures, ofModel, ofScope } from '../expressions.ts'
import type { EventReader } from '../reader.ts'
import type { EventScope } from '../scope.ts'
import type { Source } from '../source.ts'
import { storedEvents } from '../stored.ts'
import type { EventKind } from '../tables.ts'
import { isNotVoided, listVoidedKinds, type ModelColumn, selectModel } from './model-table.ts'
import type { Sandbox } from './sandbox.ts'

type Filter = {
  modelId: bigint
  /** The columns that the condition names. */
  columns: ModelColumn[]
  /** A checked condition on them. */
  condition: string
  /** Models whose events are read besides, all of them: the reference. */
  others: bigint[]
}

/**
 * An event reader that sees only the predictions of a model that meet a condition, and their labels. Every question about
 * events can be asked of it. It uses no rollups, which do not know the condition, and runs the questions in the sandbox,
 * since the condition is written by a caller.
 */
export function createFilteredReader(reader: EventReader, sandbox: Sandbox, filter: Filter): EventReader {
  const { database } = sandbox
  const { modelId, columns, condition, others } = filter
  const events: EventScope = { modelId, kind: 'EVENTS' }

  function selectSource(source: Source, voided: ReadonlySet<EventKind>): string {
    const { stored, scope, features } = source
    const isAlive = voided.has(scope.kind) && isNotVoided(database, scope)
    const matching = (key: string, of = events) =>
      `SELECT ${key} FROM (${selectModel({ database, scope: of, columns, voided, keys: true })}) WHERE (${condition})`

    function isMatching(): string | undefined {
      if (scope.modelId !== modelId) return isAlive || undefined
      // Those that match are not void.
      if (scope.kind !== 'LATE_LABELS') return `(claim, place) IN (${matching('claim, place', scope)})`
      const isLabel = and(isAlive, `id_hash IN (${matching('id_hash')})`)
      if (stored === storedEvents) return isLabel
      return `(claim, place) IN (SELECT claim, place FROM ${database}.sql_events WHERE ${ofModel(scope)} AND ${isLabel})`
    }

    const [view, identity] =
      stored === storedEvents ? ['sql_events', 'claim, place'] : ['sql_event_values', 'name, claim, place']
    return `(SELECT ${source.columns} FROM (SELECT * FROM ${database}.${view}
      WHERE ${and(ofScope(scope), features && ofFeatures(features), isMatching())} LIMIT 1 BY ${identity}))`
  }

  async function read<Row>(sources: Source[], toQuery: (tables: string[]) => string): Promise<Row[]> {
    const models = [...new Set(sources.map((it) => it.scope.modelId))]
    const voided = new Map(
      await Promise.all(models.map(async (it) => [it, await listVoidedKinds(sandbox, it)] as const)),
    )
    const selects = sources.map((it) => selectSource(it, voided.get(it.scope.modelId) ?? new Set()))
    return await sandbox.rows<Row>(toQuery(selects), [modelId, ...others])
  }

  return {
    ...reader,
    read,
    readCached: read,
    // Nothing is rolled up, so no feature is rounded or hashed.
    rolledFeatures: async () => () => undefined,
  }
}
