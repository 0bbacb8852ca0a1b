import fc from 'fast-check'
import { afterAll, beforeAll, expect, inject, it } from 'vitest'
import { type ClickHouse, openClickHouse } from '../../../store/clickhouse/connection.ts'
import { doubleText } from '../../../store/clickhouse/points/double-text.ts'

let clickhouse: ClickHouse
beforeAll(() => {
  clickhouse = openClickHouse({ url: inject('stores').clickhouseUrl })
})
afterAll(() => clickhouse.close())

/** As Java writes doubles: the digits are those of `toExponential`. */
function inJava(value: number): string {
  if (!Number.isFinite(value)) return String(value)
  const size = Math.abs(value)
  const sign = value < 0 || Object.is(value, -0) ? '-' : ''
  if (size === 0) return `${sign}0.0`
  if (size === 5e-324) return `${sign}4.9E-324`
  if (size >= 1e-3 && size < 1e7) return `${sign}${Number.isInteger(size) ? `${size}.0` : size}`
  const [digits = '', exponent] = size.toExponential().split('e')
  return `${sign}${digits.includes('.') ? digits : `${digits}.0`}E${Number(exponent)}`
}

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

it('doubles are written as Java writes them, every size and sign', async () => {
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

  expect(rows.map((it) => it.text)).toEqual(values.map(inJava))
  expect(rows.map((it) => it.other)).toEqual(values.map((it) => inJava(-it)))
})
