import { gzipSync } from 'node:zlib'
import { type DataType, dictionary, float32, float64, int32, int64, list, utf8 } from '@uwdata/flechette'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { arrowType } from '../../../http/body/arrow.ts'
import { readBatch, readEnvelope } from '../../../ingest/points/batch.ts'
import { codes, expectRefusal } from '../../api/http-error.ts'
import { toArrowStream } from '../../kit/arrow.ts'
import { openTestService } from '../../kit/service.ts'

const seriesTypes: Record<string, DataType> = {
  metricName: dictionary(utf8()),
  values: list(float64()),
  steps: list(int64()),
  epochs: list(int64()),
  timestamps: list(int64()),
}
const metadata = { experimentKey: 'x' }
const read = (sent: unknown) => readBatch(readEnvelope(sent))
const readColumns = (columns: Record<string, unknown[]>, types: Record<string, DataType> = seriesTypes) =>
  read(toArrowStream({ columns, types, metadata }))

/** Without the difference between a list and a typed one, and between 5 and 5n. */
const plain = (batch: ReturnType<typeof read>) =>
  JSON.parse(
    JSON.stringify(batch, (_, it) =>
      ArrayBuffer.isView(it)
        ? Array.from(it as unknown as ArrayLike<number>, (one) => String(one))
        : typeof it === 'number' || typeof it === 'bigint'
          ? String(it)
          : it,
    ),
  ) as unknown

describe('a batch as an Arrow stream', () => {
  const integer = fc.oneof(fc.integer(), fc.maxSafeInteger(), fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }))
  const aSeries = fc.nat(5).chain((length) => {
    const listOf = <T>(of: fc.Arbitrary<T>) => fc.array(of, { minLength: length, maxLength: length })
    const integers = fc.option(listOf(fc.option(integer, { freq: 8 })))
    return fc.record({
      metricName: fc.option(fc.constantFrom('loss', 'rate', ''), { freq: 8 }),
      context: fc.option(fc.constantFrom('train', 'test')),
      values: listOf(fc.option(fc.double(), { freq: 12 })),
      steps: integers,
      epochs: integers,
      timestamps: integers,
    })
  })
  type Value = number | bigint | null
  const exact = (values: Value[] | null) => values?.map((it) => (it === null ? null : BigInt(it))) ?? null
  const toNames = (values: (number | null)[]) =>
    values.map((it) => (it === null || Number.isFinite(it) ? it : String(it)))

  it('has the points, the errors and the places that its JSON has', () => {
    fc.assert(
      fc.property(fc.array(aSeries, { minLength: 1, maxLength: 4 }), (series) => {
        const names = ['metricName', 'context', 'values'] as const
        const columns: Record<string, unknown[]> = Object.fromEntries(
          names.map((name) => [name, series.map((it) => it[name])]),
        )
        for (const name of ['steps', 'epochs', 'timestamps'] as const)
          columns[name] = series.map((it) => exact(it[name]))
        const json = { experimentKey: 'x', series: series.map((it) => ({ ...it, values: toNames(it.values) })) }

        expect(plain(readColumns(columns, { ...seriesTypes, context: utf8() }))).toEqual(plain(read(json)))
      }),
      { numRuns: 300 },
    )
  })

  it('takes the numbers as they lie in the body', () => {
    const body = toArrowStream({
      columns: { metricName: ['a'], values: [[1, 2]], steps: [[5n, 6n]] },
      types: seriesTypes,
      metadata,
    })
    const [series] = read(body).series

    expect(series?.values).toEqual(new Float64Array([1, 2]))
    for (const it of [series?.values, series?.steps]) expect(it).toHaveProperty('buffer', body.buffer)
  })

  it('has a point a row where its values are no lists, in the order of the rows', () => {
    const columns = {
      metricName: ['a', 'b', 'a', null],
      metricValue: [0.5, Number.NaN, null, 1],
      step: [1, 2, 3, 4],
      context: ['x', null, 'x', 'x'],
      unknown: ['is', 'ignored', 'as', 'in JSON'],
    }
    const batch = readColumns(columns, { metricValue: float32(), step: int32() })

    expect(batch.series).toMatchObject([
      { metric: 'a', context: 'x', values: [0.5], steps: [1], firstPlace: 0 },
      { metric: 'b', context: '', values: [Number.NaN], steps: [2], firstPlace: 1 },
    ])
    expect(batch.rejected).toEqual([
      { index: 2, msg: 'metrics[2].metricValue: is missing' },
      { index: 3, msg: 'metrics[3].metricName: is missing' },
    ])
  })

  it('floats are steps where they are whole: data frames have no other column for integers of which some are absent', () => {
    const types = { values: list(float64()), steps: list(float64()) }
    const columns = { metricName: ['a'], values: [[1, 2, 3, 4]], steps: [[1, 2.5, null, 2 ** 60]] }
    const { series, rejected } = readColumns(columns, types)

    expect(series).toMatchObject([
      { values: [1, 3, 4], steps: [1, 0, 2n ** 60n], presents: [1, 0, 1], places: [0, 2, 3] },
    ])
    expect(rejected).toEqual([{ index: 1, msg: 'series[0][1].step: expected an integer from -2^63 to 2^63-1' }])
  })

  it('a wrong column, and what is missing, is named with what to send', () => {
    const values = [[1]]
    expect(() => readColumns({ metricName: ['a'], values, steps: ['1'] }, { values: list(float64()) })).toThrow(
      'steps: has a column of texts, but expected list of integers or list of floats',
    )
    expect(() => readColumns({ metricName: ['a'] }, {})).toThrow(
      /^values: is missing \(an Arrow stream has a column "values"/,
    )
    const nameless = toArrowStream({ columns: { metricName: ['a'], values }, types: seriesTypes })
    expect(() => read(nameless)).toThrow('experimentKey: is missing (put it into the metadata of the Arrow schema)')
  })
})

describe('an Arrow stream sent to the service', () => {
  let service: Awaited<ReturnType<typeof openTestService>>
  beforeAll(async () => {
    service = await openTestService()
  })
  afterAll(() => service.close())

  const bodyOf = (experimentKey: string) =>
    toArrowStream({
      columns: {
        metricName: ['loss', 'rate'],
        values: [
          [0.5, Number.NaN, Number.NEGATIVE_INFINITY, 5e-324],
          [1, 2, 3, 4],
        ],
        steps: [
          [1n, 2n, 3n, 2n ** 63n - 1n],
          [-(2n ** 63n), 1n, 2n, 3n],
        ],
      },
      types: seriesTypes,
      metadata: { experimentKey },
    })
  const headers = { 'content-type': arrowType }

  it('is stored exactly once, as its JSON is, plain or compressed', async () => {
    const { client } = service
    const experimentKey = await client.createExperiment()
    const path = '/write/experiment/metrics/batch'
    const body = bodyOf(experimentKey)
    const keyed = { ...headers, 'idempotency-key': 'one batch' }

    const answer = await client.postRaw(path, body, { headers: keyed })
    await client.postRaw(path, gzipSync(body), { headers: { ...keyed, 'content-encoding': 'gzip' } })
    await client.post(
      path,
      {
        experimentKey,
        series: [
          { metricName: 'loss', values: [0.5, 'NaN', '-Infinity', 5e-324], steps: [1, 2, 3, '9223372036854775807'] },
          { metricName: 'rate', values: [1, 2, 3, 4], steps: ['-9223372036854775808', 1, 2, 3] },
        ],
      },
      { headers: { 'idempotency-key': 'one batch' } },
    )

    expect(answer.body).toMatchObject({ code: 200, accepted: 8, rejected: [], throttled: 0 })
    const stored = await client.readPoints(experimentKey, 'loss', 4)
    expect(stored.map((it) => [it.step, it.metricValue])).toEqual([
      [1, '0.5'],
      [2, 'NaN'],
      [3, '-Infinity'],
      [2 ** 63, '4.9E-324'],
    ])
    expect(await client.readPoints(experimentKey, 'rate', 4)).toHaveLength(4)
  })

  it('a body that is none is refused with its reason, and so is an Arrow stream elsewhere', async () => {
    const { client } = service
    const experimentKey = await client.createExperiment()
    const cut = bodyOf(experimentKey).subarray(0, -20)

    expectRefusal(
      await client.postRaw('/write/experiment/metrics/batch', cut, { headers }),
      400,
      codes.badRequest,
      'The body is not an Arrow IPC stream: it ends in the middle of a message.',
    )
    expectRefusal(
      await client.postRaw('/write/experiment/metric', bodyOf(experimentKey), { headers }),
      415,
      codes.unsupportedType,
      'The Content-Type is not understood: send application/json.',
    )
  })
})
