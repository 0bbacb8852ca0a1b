import { z } from 'zod'
import { toJsonAnswer, toJsonInteger } from '../../http/body/exact-json.ts'
import { object, optional, text } from '../../http/body/fields.ts'
import { HttpError } from '../../http/errors.ts'
import { type Route, route } from '../../http/route.ts'
import type { ClickHouse } from '../../store/clickhouse/connection.ts'
import { findEvent, type StoredValue } from '../../store/clickhouse/monitoring/events.ts'
import { type EventKind, eventKinds, valueParts, valueTypes } from '../../store/clickhouse/monitoring/tables.ts'
import type { Database } from '../../store/postgres/database.ts'
import { findEventNumber, toIdHash } from '../../store/postgres/monitoring/event-claims.ts'
import { type MonitoredModels, modelQuery } from './monitored-model.ts'

type Deps = { database: Database; clickhouse: ClickHouse; models: MonitoredModels }

const ms = z.int().describe('ms since the Unix epoch')
const typeNames = ['missing', 'integer', 'float', 'boolean', 'string'] as const

const scalars = z.array(
  z.object({
    name: z.string(),
    type: z.enum(typeNames),
    value: z
      .union([z.number(), z.boolean(), z.string(), z.null()])
      .describe('an integer with all digits; NaN and infinities as strings; null if missing'),
  }),
)

/** Reads one event. */
export function createMonitoringEventRoutes({ database, clickhouse, models }: Deps): Route[] {
  async function find(modelId: bigint, kind: EventKind, idHash: string) {
    const number = await findEventNumber(database, { modelId, kind: eventKinds[kind], idHash })
    return number && (await findEvent(clickhouse, { modelId, kind: eventKinds[kind], ...number }))
  }

  return [
    route({
      method: 'GET',
      path: '/mpm/v2/event',
      permission: 'caller',
      topic: 'Production monitoring',
      atRoot: true,
      summary:
        'Reads one event by its prediction id, with its labels; each value with its type. With `datasetType` ' +
        'TRAINING_EVENTS it reads an event of a reference data set.',
      query: object({
        workspaceName: modelQuery.shape.workspaceName,
        modelName: modelQuery.shape.modelName,
        predictionId: text(1_000, 1),
        datasetType: optional(z.enum(['EVENTS', 'TRAINING_EVENTS'], 'expected EVENTS or TRAINING_EVENTS')).describe(
          'EVENTS when absent',
        ),
      }),
      answer: z.object({
        predictionId: z.string(),
        modelName: z.string(),
        modelVersion: z.string(),
        timestamp: ms.nullable().describe('null if only labels have arrived'),
        receivedAt: ms.nullable(),
        features: scalars,
        prediction: scalars,
        labels: scalars,
        labelsTimestamp: ms.nullable(),
        labelsReceivedAt: ms.nullable(),
      }),
      shape: 'plain',
      async handle({ query, caller }) {
        const model = await models.find(caller, query)
        const idHash = toIdHash(query.predictionId)
        const isReference = query.datasetType === 'TRAINING_EVENTS'
        const [event, late] = await Promise.all([
          find(model.id, query.datasetType ?? 'EVENTS', idHash),
          isReference ? undefined : find(model.id, 'LATE_LABELS', idHash),
        ])
        if (!event && !late) {
          throw new HttpError(
            'eventUnknown',
            `The model "${model.name}" has no event of this prediction id, or it is not readable yet.`,
          )
        }
        const labelled = isReference ? event : late
        const pick = (values: StoredValue[] | undefined, part: number) =>
          (values ?? []).filter((it) => it.part === part).map(toScalar)
        return {
          predictionId: query.predictionId,
          modelName: model.name,
          modelVersion: (event ?? late)?.version ?? '',
          timestamp: event?.timestampMs ?? null,
          receivedAt: event?.receivedMs ?? null,
          features: pick(event?.values, valueParts.feature),
          prediction: pick(event?.values, valueParts.prediction),
          labels: pick(labelled?.values, valueParts.label),
          labelsTimestamp: labelled?.timestampMs ?? null,
          labelsReceivedAt: labelled?.receivedMs ?? null,
        }
      },
    }),
  ]
}

const namesOfTypes = new Map(Object.entries(valueTypes).map(([name, type]) => [type as number, name]))

function toScalar({ name, type, number, text }: StoredValue) {
  return { name, type: namesOfTypes.get(type) as (typeof typeNames)[number], value: toValue(type, number, text) }
}

function toValue(type: number, number: string, text: string) {
  switch (type) {
    case valueTypes.integer:
      return toInteger(text === '' ? number : text)
    case valueTypes.float:
      return toFloat(number)
    case valueTypes.boolean:
      return number === '1'
    case valueTypes.string:
      return text
  }
  return null
}

/** Parses an integer that may exceed 64 bits; ClickHouse writes large ones with an exponent. */
function toInteger(digits: string): number {
  return toJsonInteger(/^-?\d+$/.test(digits) ? BigInt(digits) : BigInt(Number(digits)))
}

const notFinite: Record<string, string> = { nan: 'NaN', inf: 'Infinity', '-inf': '-Infinity' }

function toFloat(number: string): number | string {
  return notFinite[number] ?? (toJsonAnswer(number) as number)
}
