import fc from 'fast-check'
import { afterAll, beforeAll, expect, inject, it } from 'vitest'
import { type ClickHouse, openClickHouse } from '../../../store/clickhouse/connection.ts'
import { doubleText, toDoubleText } from '../../../store/clickhouse/points/double-text.ts'

let clickhouse: ClickHouse
beforeAll(() => {
  clickhouse = openClickHouse({ url: inject('stores').clickhouseUrl })
})
afterAll(() => clickhouse.close())

const edges = [
  0,
  -0,
  Number.NaN,
  Infinity,
  -Infinity,
  5e-324,
  1e-3,
  0.000_999,
  0.001_5,
  1e7,
  9_999_999.5,
  12_345_678,
  1e15,
  1e16,
]
const wide = [
  ...edges,
  1e20,
  1e21,
  1.5e21,
  1e22,
  2 ** 53,
  1.797_693_134_862_315_7e308,
  2.225_073_858_507_201_4e-308,
  1.5e-7,
  1e-5,
]

it('doubles are written as Java writes them, every size and sign, by ClickHouse and here', async () => {
  const sizes = fc.tuple(fc.integer({ min: -330, max: 308 }), fc.double({ min: 1, max: 10, noNaN: true }))
  const some = fc.sample(
    fc.oneof(
      fc.double(),
      sizes.map(([exponent, digits]) => digits * 10 ** exponent),
    ),
    3_000,
  )
  const values = [...wide, ...wide.map((it) => -it), ...some]
  const bits = values.map((it) => new BigUint64Array(new Float64Array([it]).buffer)[0] as bigint)

  const rows = await clickhouse.rows<{ text: string; other: string }>(
    `SELECT ${doubleText('value')} AS text, ${doubleText('-value', 'other')} AS other
     FROM (SELECT reinterpretAsFloat64(arrayJoin([${bits.map((it) => `toUInt64(${it})`).join(', ')}])) AS value)`,
  )

  expect(rows.map((it) => it.text)).toEqual(values.map(toDoubleText))
  expect(rows.map((it) => it.other)).toEqual(values.map((it) => toDoubleText(-it)))
})

it('some doubles as Java has them', () => {
  const texts = [
    123,
    0.1,
    -0,
    3.435_973_836_8e10,
    1e-4,
    5e-324,
    1e7,
    9_999_999.5,
    -1.797_693_134_862_315_7e308,
    -Infinity,
  ]
  expect(texts.map(toDoubleText)).toEqual([
    '123.0',
    '0.1',
    '-0.0',
    '3.4359738368E10',
    '1.0E-4',
    '4.9E-324',
    '1.0E7',
    '9999999.5',
    '-1.7976931348623157E308',
    '-Infinity',
  ])
})
