import fc from 'fast-check'
import { expect, it } from 'vitest'
import { describeFieldError } from '../../../http/body/fields.ts'
import { type Point, pointFields, readPoint, toPoint } from '../../../ingest/points/point.ts'

const anything = fc.anything({ maxDepth: 1, withBigInt: true, withNullPrototype: true })

const name = fc.oneof(
  { weight: 4, arbitrary: fc.string({ unit: 'binary', maxLength: 20 }) },
  fc.constantFrom('', 'a\0b', '\ud800', '\udc00x', 'x'.repeat(1_000), 'x'.repeat(1_001), '😀'.repeat(500), '__proto__'),
  anything,
)
const integer = fc.oneof(
  fc.maxSafeInteger(),
  fc.bigInt({ min: -(2n ** 64n), max: 2n ** 64n }),
  fc.bigInt({ min: -(2n ** 64n), max: 2n ** 64n }).map(String),
  fc.double(),
  fc.constantFrom(
    -0,
    0,
    2 ** 53,
    -(2 ** 53),
    2 ** 63,
    -(2 ** 63),
    1e18,
    ' 7 ',
    '+7',
    '07',
    '1.0',
    '',
    '\n',
    '0x1',
    '1e3',
    1.5,
  ),
  fc.constantFrom(null, undefined),
  anything,
)
const float = fc.oneof(
  fc.double(),
  fc.double().map(String),
  fc.bigInt({ min: -(10n ** 310n), max: 10n ** 310n }),
  fc.constantFrom(
    'nan',
    'NaN',
    ' inf ',
    '-INF',
    '+Infinity',
    '-infinity',
    '1e400',
    '',
    '.5',
    '5.',
    '+5',
    '1_0',
    '0x1',
    '-0',
  ),
  anything,
)

const fields = {
  metricName: name,
  metricValue: float,
  context: fc.oneof(fc.constantFrom(null, undefined), name),
  runContext: fc.oneof({ weight: 3, arbitrary: fc.constantFrom(null, undefined) }, { weight: 1, arbitrary: name }),
  step: integer,
  epoch: integer,
  timestamp: integer,
}

/** Mostly objects with some of the fields, so that both ways are taken often. */
const raw = fc.oneof(
  { weight: 8, arbitrary: fc.record(fields, { requiredKeys: ['metricName', 'metricValue'] }) },
  {
    weight: 8,
    arbitrary: fc.record(
      {
        metricName: fc.string({ minLength: 1 }),
        metricValue: fc.double(),
        context: fc.constantFrom('', 'train', null, undefined),
        step: integer,
        epoch: fc.maxSafeInteger(),
        timestamp: fc.maxSafeInteger(),
        more: anything,
      },
      { requiredKeys: ['metricName', 'metricValue'] },
    ),
  },
  { weight: 2, arbitrary: fc.record(fields, { requiredKeys: [] }) },
  { weight: 1, arbitrary: anything },
)

function bySchema(value: unknown): Point | string {
  const checked = pointFields.safeParse(value)
  return checked.success ? toPoint(checked.data) : describeFieldError(checked.error)
}

it('the shortcut past the schema agrees with it on every input: the same points, the same messages', () => {
  fc.assert(
    fc.property(raw, (value) => {
      expect(readPoint(value, () => '')).toStrictEqual(bySchema(value))
    }),
    { numRuns: 20_000 },
  )
})

it('a point is the same, whatever series it was expected to belong to', () => {
  const few = fc.constantFrom('a', 'b', 'a_b', '')
  const ofFew = fc.record(
    { ...fields, metricName: few, context: fc.option(few), runContext: fc.option(few) },
    { requiredKeys: ['metricName', 'metricValue'] },
  )
  const series = fc.record({ metric: few.filter((it) => it !== ''), context: few })
  fc.assert(
    fc.property(fc.oneof(ofFew, raw), series, (value, likely) => {
      expect(readPoint(value, () => '', likely)).toStrictEqual(bySchema(value))
    }),
    { numRuns: 10_000 },
  )
})

it('the error of a rejected point names its field', () => {
  fc.assert(
    fc.property(raw, (value) => {
      const point = readPoint(value, () => '')
      if (typeof point !== 'string') return
      expect(point).toMatch(/^(the body|metricName|metricValue|context|runContext|step|epoch|timestamp): ./)
    }),
    { numRuns: 5_000 },
  )
})

it('an accepted point is the one that was sent', () => {
  const exact = fc.record({
    metricName: fc
      .string({ minLength: 1, maxLength: 1_000, unit: 'binary' })
      .filter((it) => !it.includes('\0') && it.length <= 1_000),
    metricValue: fc.double({ noNaN: true, noDefaultInfinity: true }),
    step: fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }),
    epoch: fc.option(fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }).map(String)),
  })
  fc.assert(
    fc.property(exact, (sent) => {
      const point = readPoint(sent, () => '') as Point
      expect(point.metric).toBe(sent.metricName)
      expect(point.value).toBe(sent.metricValue)
      expect(BigInt(point.step as bigint)).toBe(sent.step)
      expect(point.epoch === undefined ? null : String(point.epoch)).toBe(sent.epoch)
    }),
  )
})

it.each(['constructor', 'toString', 'valueOf', '__proto__', 'hasOwnProperty'])(
  'a value of %j is refused like any other word',
  (metricValue) => {
    expect(readPoint({ metricName: 'loss', metricValue }, () => '')).toBe(
      'metricValue: expected a number, or one of "NaN", "Infinity", "-Infinity" as a string',
    )
  },
)
