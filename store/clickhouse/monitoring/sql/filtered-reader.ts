import { ofFeatures, ofScope } from '../expressions.ts'
import type { EventReader } from '../reader.ts'
import type { EventScope } from '../scope.ts'
import type { Source } from '../source.ts'
import { storedEvents } from '../stored.ts'
import { eventKinds } from '../tables.ts'
import { type ModelColumn, selectModel } from './model-table.ts'
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
  const matching = (key: string, scope: EventScope = { modelId, kind: 'EVENTS' }) =>
    `SELECT ${key} FROM (${selectModel(database, scope, columns, { keys: true })}) WHERE (${condition})`

  function isMatching({ scope, stored }: Source): string {
    if (scope.modelId !== modelId) return 'true'
    if (scope.kind !== 'LATE_LABELS') return `(claim, place) IN (${matching('claim, place', scope)})`
    if (stored === storedEvents) return `id_hash IN (${matching('id_hash')})`
    return `(claim, place) IN (SELECT claim, place FROM ${database}.sql_events
      WHERE model_id = ${modelId} AND kind = ${eventKinds.LATE_LABELS} AND id_hash IN (${matching('id_hash')}))`
  }

  function selectSource(source: Source): string {
    const { stored, scope, features } = source
    const [view, identity] =
      stored === storedEvents ? ['sql_events', 'claim, place'] : ['sql_event_values', 'name, claim, place']
    const isAlive = `(claim, place) NOT IN (SELECT claim, place FROM ${database}.sql_voided_events
      WHERE model_id = ${scope.modelId} AND kind = ${eventKinds[scope.kind]})`
    const conditions = [ofScope(scope), ...(features ? [ofFeatures(features)] : []), isAlive, isMatching(source)]
    return `(SELECT ${source.columns} FROM (SELECT * FROM ${database}.${view}
      WHERE ${conditions.join(' AND ')} LIMIT 1 BY ${identity}))`
  }

  async function read<Row>(sources: Source[], toQuery: (tables: string[]) => string): Promise<Row[]> {
    return await sandbox.rows<Row>(toQuery(sources.map(selectSource)), [modelId, ...others])
  }

  return {
    ...reader,
    read,
    readCached: read,
    // Nothing is rolled up, so no feature is rounded or hashed.
    rolledFeatures: async () => () => undefined,
  }
}
