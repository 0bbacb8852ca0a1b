import fc from 'fast-check'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { eventsBatch } from '../../../ingest/monitoring/descriptions.ts'
import { type FieldError, readItem } from '../../../ingest/monitoring/event.ts'
import { eventually } from '../../kit/eventually.ts'
import { inForm } from '../../kit/form.ts'
import { openTestService } from '../../kit/service.ts'

let service: Awaited<ReturnType<typeof openTestService>>
beforeAll(async () => {
  service = await openTestService()
})
afterAll(() => service?.close())

const storable = fc.string({ unit: 'binary', maxLength: 20 }).filter((it) => !it.includes('\0') && it.isWellFormed())
const name = storable.filter((it) => it !== '')
const scalar = fc.oneof(
  fc.integer(),
  fc.maxSafeInteger(),
  fc.double({ noNaN: true, noDefaultInfinity: true }),
  fc.boolean(),
  storable,
  fc.constant(null),
)
const scalars = fc.dictionary(name, scalar, { maxKeys: 8, noNullPrototype: true })

const count = inForm({ short: 60, middle: 100, long: 2_000 })

it('every scalar is read as it was sent, with its type', async () => {
  const sent = fc.sample(scalars, count)
  const { workspaceName } = service
  const toEvent = (features: object, at: number) => ({
    workspaceName,
    modelName: 'any',
    predictionId: `p${at}`,
    features,
  })
  const answer = await service.client.post('/mpm/v2/events/batch', { data: sent.map(toEvent) })
  expect(answer.body).toMatchObject({ accepted: count, rejected: 0 })
  for (const [at, features] of sent.entries()) {
    const query = new URLSearchParams({ workspaceName, modelName: 'any', predictionId: `p${at}` })
    await eventually(async () => {
      const { body, text } = await service.client.get(`/mpm/v2/event?${query}`)
      const read = body.features as { name: string; type: string; value: unknown }[]
      expect(read?.length, text).toBe(Object.keys(features).length)
      // Through JSON, as the client sent them: there -0 is 0.
      const expected = JSON.parse(JSON.stringify(features)) as Record<string, unknown>
      expect(new Map(read.map((it) => [it.name, it.value]))).toEqual(new Map(Object.entries(expected)))
      for (const { type, value } of read) expect(type).toBe(typeOf(value))
    })
  }
})

function typeOf(value: unknown): string {
  if (value === null) return 'missing'
  if (typeof value !== 'number') return typeof value
  // What JSON writes without a point and without an exponent is an integer.
  return /^-?\d+$/.test(JSON.stringify(value)) ? 'integer' : 'float'
}

const read = (raw: unknown, labelsOnly = false) => {
  const faults: FieldError[] = []
  return { item: readItem(raw, labelsOnly, faults), faults }
}

it('any JSON is either a valid item or has an error that names a field', () => {
  const field = fc.constantFrom(
    ...['workspaceName', 'modelName', 'modelVersion', 'predictionId', 'timestamp', 'features', 'prediction'],
    ...['predictions', 'labels', 'value', 'other'],
  )
  const items = fc.oneof(fc.jsonValue(), fc.dictionary(field, fc.oneof(fc.jsonValue(), scalar, scalars)))
  fc.assert(
    fc.property(items, fc.boolean(), (raw, labelsOnly) => {
      const { item, faults } = read(raw, labelsOnly)
      expect(item === undefined).toBe(faults.length > 0)
      for (const { msg } of faults) expect(msg).not.toBe('')
    }),
    { numRuns: 2_000 },
  )
})

it('everything that the reference page allows is accepted', () => {
  const id = name.filter((it) => it.length > 0)
  const time = fc.option(fc.integer({ min: 100_000_000_000, max: 100_000_000_000_000 }))
  const prediction = fc
    .oneof(scalars, scalar)
    .filter((it) => !(it !== null && typeof it === 'object' && 'probability' in it))
  const items = fc.record(
    {
      workspaceName: id,
      modelName: id,
      modelVersion: fc.option(id),
      predictionId: id,
      timestamp: time,
      features: fc.option(scalars),
      prediction: fc.option(prediction),
      labels: fc.option(scalars),
    },
    { requiredKeys: ['workspaceName', 'modelName', 'predictionId', 'features'] },
  )
  fc.assert(
    fc.property(items, (raw) => {
      expect(eventsBatch.body.safeParse({ data: [raw] }).success).toBe(true)
      const hasOnlyEmptyLabels =
        raw.features === null &&
        raw.prediction == null &&
        raw.labels != null &&
        Object.values(raw.labels).every((it) => it === null)
      expect(read(raw).faults.length > 0).toBe(hasOnlyEmptyLabels)
    }),
    { numRuns: 1_000 },
  )
})
