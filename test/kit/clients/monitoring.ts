import { type ClickHouse, openClickHouse } from '../../../store/clickhouse/connection.ts'
import { selectValues } from '../../../store/clickhouse/monitoring/stored.ts'
import { eventKinds, valueColumnNames } from '../../../store/clickhouse/monitoring/tables.ts'
import { uniqueName } from '../service.ts'

/** An event as a client sends it. */
export function anEvent(changes: Record<string, unknown> = {}): Record<string, unknown> {
  return {
    modelName: 'fraud',
    modelVersion: '1.0.0',
    predictionId: uniqueName('prediction'),
    timestamp: 1_700_000_000_000,
    features: { age: 42, income: 1234.5, isMember: true, country: 'NL' },
    prediction: { value: 'ok', probability: 0.75 },
    ...changes,
  }
}

/** What is in the tables, as every read sees it: without what was taken over, and each number once. */
export type StoredEvent = {
  predictionId: string
  kind: number
  version: string
  timestamp: number
  claim: string
  place: number
  /** `part name type number text`. */
  values: string[]
}

export async function readStoredEvents(clickhouseUrl: string, modelId: bigint): Promise<StoredEvent[]> {
  const clickhouse = openClickHouse({ url: clickhouseUrl })
  try {
    return await selectEvents(clickhouse, modelId)
  } finally {
    await clickhouse.close()
  }
}

async function selectEvents(clickhouse: ClickHouse, modelId: bigint): Promise<StoredEvent[]> {
  const { database } = clickhouse
  const notVoided = `(kind, claim, place) NOT IN (SELECT kind, claim, place FROM ${database}.voided_events
    WHERE model_id = {model:UInt64})`
  const events = await clickhouse.rows<Omit<StoredEvent, 'values' | 'timestamp'> & { timestamp: string }>(
    `SELECT prediction_id AS predictionId, kind, version, timestamp, claim, place FROM ${database}.events FINAL
     WHERE model_id = {model:UInt64} AND ${notVoided} ORDER BY kind, predictionId`,
    { model: String(modelId) },
  )
  const values = await clickhouse.rows<{ kind: number; claim: string; place: number; value: string }>(
    `SELECT kind, claim, place, concat(toString(part), ' ', name, ' ', toString(type), ' ', toString(number), ' ', text) AS value
     FROM (${selectValues(database, valueColumnNames, { common: 'model_id = {model:UInt64}', each: notVoided }, 'final')})
     ORDER BY kind, claim, place, part, name`,
    { model: String(modelId) },
  )
  const byNumber = Map.groupBy(values, (it) => `${it.kind} ${it.claim} ${it.place}`)
  return events.map((it) => ({
    ...it,
    timestamp: Number(it.timestamp),
    values: (byNumber.get(`${it.kind} ${it.claim} ${it.place}`) ?? []).map(({ value }) => value),
  }))
}

export const kindOf = (kind: keyof typeof eventKinds) => eventKinds[kind]
