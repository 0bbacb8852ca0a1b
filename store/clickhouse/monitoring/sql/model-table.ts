import { and, categoryOf, type FeatureType, isMissing, ofFeatures, ofModel, ofScope, quote } from '../expressions.ts'
import type { EventScope, FeatureName, ModelEvents } from '../scope.ts'
import { type EventKind, eventKinds, type ValuePart, valueParts } from '../tables.ts'
import { SqlRefused } from './errors.ts'
import type { Sandbox } from './sandbox.ts'

/** A value of an event as a column of the table: `feature_age`, `prediction_score`, `label_fraud`. */
export type ModelColumn = FeatureName & { column: string; type: FeatureType }

export const toColumn = ({ part, name }: FeatureName) => `${part}_${name}`

/** The columns that every model has. */
export const systemColumns = [
  { name: 'predictionId', type: 'String' },
  { name: 'modelVersion', type: 'String' },
  { name: 'timestamp', type: 'Int64' },
  { name: '__time', type: 'DateTime64(3)' },
] as const

/** A statement that reads more columns is refused. */
const columnsMax = 500

/** A name in a statement. */
const identifier = (name: string) => `\`${name.replaceAll('\\', '\\\\').replaceAll('`', '\\`')}\``

type ModelTable = {
  database: string
  scope: EventScope
  columns: ModelColumn[]
  /** The kinds of events with some that are void. */
  voided: ReadonlySet<EventKind>
  /** Adds the identity of the event: `claim`, `place`, `id_hash`. */
  keys?: boolean
}

/**
 * The predictions of a model as a table, one row each, with its values and its labels in columns: numbers of a numeric one as
 * Float64, the categories of a categorical one as String; NULL where an event has no such value.
 */
export function selectModel({ database, scope, columns, voided, keys = false }: ModelTable): string {
  if (columns.length > columnsMax) {
    throw new SqlRefused(`reads ${columns.length} columns: name those that you need, ${columnsMax} at most`)
  }
  const ofPart = (parts: ValuePart[]) => columns.filter((it) => parts.includes(it.part))
  const [own, labels] = [ofPart(['feature', 'prediction']), ofPart(['label'])]
  const isAlive = ({ kind }: EventScope) => voided.has(kind) && isNotVoided(database, { modelId: scope.modelId, kind })
  const labelled: EventScope = { modelId: scope.modelId, kind: 'LATE_LABELS' }
  const events = `SELECT claim, place, version, timestamp, prediction_id, id_hash FROM ${database}.sql_events
    WHERE ${and(ofScope(scope), isAlive(scope))} LIMIT 1 BY claim, place`
  const values = `SELECT claim, place, ${own.map(toValue).join(', ')} FROM ${database}.sql_event_values
    WHERE ${ofScope(scope)} AND ${ofColumns(own)} GROUP BY claim, place`
  const ofLabels = `SELECT id_hash, ${labels.map(toValue).join(', ')}
    FROM (SELECT claim, place, id_hash FROM ${database}.sql_events
      WHERE ${and(ofScope(labelled), isAlive(labelled))} LIMIT 1 BY claim, place) AS it
    INNER JOIN (SELECT claim, place, part, name, type, number, text FROM ${database}.sql_event_values
      WHERE ${ofScope(labelled)} AND ${ofColumns(labels)}) AS its ON it.claim = its.claim AND it.place = its.place
    GROUP BY id_hash`
  return `SELECT ${keys ? 'e.claim AS claim, e.place AS place, e.id_hash AS id_hash, ' : ''}e.prediction_id AS predictionId,
      toString(e.version) AS modelVersion, e.timestamp AS timestamp, fromUnixTimestamp64Milli(e.timestamp, 'UTC') AS __time
      ${[...own.map((it) => `, v.${identifier(it.column)} AS ${identifier(it.column)}`), ...labels.map((it) => `, l.${identifier(it.column)} AS ${identifier(it.column)}`)].join('')}
    FROM (${events}) AS e
    ${own.length === 0 ? '' : `LEFT JOIN (${values}) AS v ON e.claim = v.claim AND e.place = v.place`}
    ${labels.length === 0 ? '' : `LEFT JOIN (${ofLabels}) AS l ON e.id_hash = l.id_hash`}`
}

/**
 * The kinds of events of a model with some that are void. Most models have none; to ask for them in each of the places where a
 * question reads events takes longer than the answer.
 */
export async function listVoidedKinds(sandbox: Sandbox, modelId: bigint): Promise<ReadonlySet<EventKind>> {
  const query = `SELECT DISTINCT kind FROM ${sandbox.database}.sql_voided_events WHERE model_id = ${modelId}`
  const rows = await sandbox.rows<{ kind: number }>(query, [modelId])
  const found = new Set(rows.map((it) => it.kind))
  return new Set((Object.keys(eventKinds) as EventKind[]).filter((it) => found.has(eventKinds[it])))
}

/** The condition on events. */
export const isNotVoided = (database: string, model: ModelEvents) =>
  `(claim, place) NOT IN (SELECT claim, place FROM ${database}.sql_voided_events WHERE ${ofModel(model)})`

function ofColumns(columns: ModelColumn[]): string {
  const byPart = [...Map.groupBy(columns, (it) => it.part)]
  return `(${byPart.map(([part, its]) => `(${ofFeatures({ part, names: its.map((it) => it.name) })})`).join(' OR ')})`
}

/** The value of a column among the rows of an event. Repeated deliveries of a row are equal. */
function toValue({ part, name, type, column }: ModelColumn): string {
  const isIt = `part = ${valueParts[part]} AND name = ${quote(name)} AND NOT ${isMissing}`
  return type === 'numeric'
    ? `anyOrNullIf(number, ${isIt} AND type IN (1, 2)) AS ${identifier(column)}`
    : `anyOrNullIf(${categoryOf}, ${isIt}) AS ${identifier(column)}`
}
