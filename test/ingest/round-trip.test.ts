import fc from 'fast-check'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { parseExactJson } from '../../http/body/exact-json.ts'
import { inForm } from '../kit/form.ts'
import { openTestService } from '../kit/service.ts'

/** Whatever can be sent is read back: the same points, to the bit, however they were packed and in whatever order. */
let service: Awaited<ReturnType<typeof openTestService>>
beforeAll(async () => {
  service = await openTestService()
})
afterAll(() => service?.close())

type Point = {
  name: string
  context: string
  value: number
  step: bigint | undefined
  epoch: bigint | undefined
  timestamp: bigint | undefined
}

const isText = (value: string) => !value.includes('\0')
const int64 = fc.oneof(
  fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }),
  fc.constantFrom(-(2n ** 63n), 2n ** 63n - 1n, 2n ** 53n + 1n, -(2n ** 53n) - 1n, 0n, -1n),
)
const maybe = fc.option(int64, { nil: undefined })

const points: fc.Arbitrary<Point[]> = fc
  .tuple(
    fc.uniqueArray(fc.string({ unit: 'binary', minLength: 1, maxLength: 30 }).filter(isText), {
      minLength: 1,
      maxLength: 3,
    }),
    fc.array(fc.string({ unit: 'binary', maxLength: 10 }).filter(isText), { minLength: 1, maxLength: 3 }),
  )
  .chain(([names, contexts]) =>
    fc.array(
      fc.record({
        name: fc.constantFrom(...names),
        context: fc.constantFrom(...contexts),
        value: fc.oneof(
          fc.double(),
          fc.constantFrom(-0, 0, 5e-324, Number.MAX_VALUE, NaN, Infinity, -Infinity, 0.1 + 0.2),
        ),
        step: maybe,
        epoch: maybe,
        timestamp: maybe,
      }),
      { minLength: 1, maxLength: 60 },
    ),
  )

/** One request: some points as rows, some as columns, or a single one to its own address. */
type Packing = { size: number; form: 'rows' | 'columns' | 'both' | 'single'; asText: boolean }
const packings = fc.infiniteStream(
  fc.record<Packing>({
    size: fc.integer({ min: 1, max: 20 }),
    form: fc.constantFrom('rows', 'columns', 'both', 'single'),
    asText: fc.boolean(),
  }),
)

function toValueText(value: number, asText: boolean): string {
  if (!Number.isFinite(value)) return JSON.stringify(String(value))
  const digits = Object.is(value, -0) ? '-0' : String(value)
  return asText ? `"${digits}"` : digits
}

function toIntegerText(value: bigint | undefined, asText: boolean): string {
  if (value === undefined) return 'null'
  return asText ? `"${value}"` : String(value)
}

function toRow({ name, context, value, step, epoch, timestamp }: Point, asText: boolean): string {
  const fields = {
    metricName: JSON.stringify(name),
    metricValue: toValueText(value, asText),
    [asText ? 'runContext' : 'context']: JSON.stringify(context),
    step: toIntegerText(step, asText),
    epoch: toIntegerText(epoch, asText),
    timestamp: toIntegerText(timestamp, asText),
  }
  // What is absent may be null, or not be there.
  const sent = Object.entries(fields).filter(([, text]) => asText || text !== 'null')
  return `{${sent.map(([field, text]) => `"${field}":${text}`).join(',')}}`
}

function toSeries(points: Point[], asText: boolean): string {
  const groups = Map.groupBy(points, (it) => JSON.stringify([it.name, it.context]))
  const series = [...groups.values()].map((group) => {
    const { name, context } = group[0] as Point
    const column = (field: 'step' | 'epoch' | 'timestamp') =>
      `[${group.map((it) => toIntegerText(it[field], asText)).join(',')}]`
    return `{"metricName":${JSON.stringify(name)},"context":${JSON.stringify(context)},"steps":${column('step')},
      "epochs":${column('epoch')},"timestamps":${column('timestamp')},
      "values":[${group.map((it) => toValueText(it.value, asText)).join(',')}]}`
  })
  return `[${series.join(',')}]`
}

async function send(experimentKey: string, points: Point[], { form, asText }: Packing) {
  const { client } = service
  const owner = `"experimentKey":"${experimentKey}"`
  if (form === 'single') {
    await Promise.all(
      points.map(async (point) => {
        const body = `{${owner},${toRow(point, asText).slice(1)}`
        const answer = await client.postRaw('/write/experiment/metric', body)
        expect(answer.text).toBe('{"msg":"Saved","code":200,"data":null,"sdk_error_code":0}')
      }),
    )
    return
  }
  const rows = form === 'rows' ? points : form === 'columns' ? [] : points.slice(0, points.length / 2)
  const columns = points.slice(rows.length)
  const body = `{"metrics":[${rows.map((it) => toRow(it, asText)).join(',')}],"series":${toSeries(columns, asText)},${owner}}`
  const answer = await client.postRaw('/write/experiment/metrics/batch', body)
  expect(answer.body).toMatchObject({ code: 200, accepted: points.length, rejected: [], rejectedCount: 0 })
}

const bits = new DataView(new ArrayBuffer(8))

/** All of a point as text: its bits, not its looks. `received` is when it came, which stands in for an absent time. */
function toText(point: Point, received: (time: bigint) => boolean): string {
  bits.setFloat64(0, point.value)
  const { name, context, step, epoch, timestamp } = point
  const time = timestamp === undefined || received(timestamp) ? 'received' : timestamp
  return JSON.stringify([name, context, String(bits.getBigUint64(0)), String(step), String(epoch), String(time)])
}

type Integer = number | bigint | null
type Stored = {
  metricName: string
  metricValue: string
  runContext: string | null
  step: Integer
  epoch: Integer
  timestamp: Integer
}

async function readBack(experimentKey: string, name: string): Promise<Point[]> {
  const query = new URLSearchParams({ experimentKey, metricName: name })
  const answer = await service.client.get(`/experiment/metrics/get-metric?${query}`)
  expect(answer.status).toBe(200)
  const { metrics } = parseExactJson(answer.text) as unknown as { metrics: Stored[] }
  const toBigInt = (value: Integer) => (value === null ? undefined : BigInt(value))
  return metrics
    .map((it) => ({
      name: it.metricName,
      context: it.runContext ?? '',
      value: Number(it.metricValue),
      step: toBigInt(it.step),
      epoch: toBigInt(it.epoch),
      timestamp: toBigInt(it.timestamp),
    }))
    .filter((it) => it.name === name)
}

it('any points are read as they were sent, bit for bit, by every route', async () => {
  await fc.assert(
    fc.asyncProperty(points, packings, async (sent, packing) => {
      const experimentKey = await service.client.createExperiment()
      const before = BigInt(Date.now())
      const requests: Promise<void>[] = []
      for (let at = 0; at < sent.length; ) {
        const next = packing.next().value
        requests.push(send(experimentKey, sent.slice(at, at + next.size), next))
        at += next.size
      }
      await Promise.all(requests)
      const after = BigInt(Date.now())
      const received = (time: bigint) => time >= before && time <= after

      for (const [name, expected] of Map.groupBy(sent, (it) => it.name)) {
        await service.client.readPoints(experimentKey, name, expected.length)
        const read = await readBack(experimentKey, name)
        expect(read.map((it) => toText(it, received)).toSorted()).toEqual(
          expected.map((it) => toText(it, received)).toSorted(),
        )
      }
    }),
    { numRuns: inForm({ short: 15, middle: 20, long: 200 }) },
  )
})

it('concurrent copies of a request with one Idempotency-Key are stored once', async () => {
  await fc.assert(
    fc.asyncProperty(points, fc.integer({ min: 2, max: 6 }), async (sent, times) => {
      const { client } = service
      const experimentKey = await client.createExperiment()
      const kept = sent.map((it) => ({ ...it, timestamp: it.timestamp ?? 0n }))
      const body = `{"experimentKey":"${experimentKey}","metrics":[${kept.map((it) => toRow(it, true)).join(',')}]}`
      const headers = { 'idempotency-key': experimentKey }
      await Promise.all(
        Array.from({ length: times }, () => client.postRaw('/write/experiment/metrics/batch', body, { headers })),
      )

      for (const [name, expected] of Map.groupBy(kept, (it) => it.name)) {
        await client.readPoints(experimentKey, name, expected.length)
        const read = await readBack(experimentKey, name)
        expect(read.map((it) => toText(it, () => false)).toSorted()).toEqual(
          expected.map((it) => toText(it, () => false)).toSorted(),
        )
      }
    }),
    { numRuns: inForm({ short: 4, middle: 6, long: 50 }) },
  )
})
