import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type ExactJson, parseExactJson, toJsonInteger } from '../../http/body/exact-json.ts'

const spaces = fc.constantFrom('', ' ', '\n', '\t ', '  \r\n')

/** A value as exact JSON means it, with a text for it: the integers in digits, wherever they stand. */
const { value: jsonText } = fc.letrec<{ value: { text: string; value: ExactJson } }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 4, depthSize: 'small' },
    fc.bigInt({ min: -(2n ** 63n), max: 2n ** 64n }).map((it) => ({ text: String(it), value: toShortest(it) })),
    fc.bigInt({ min: -(10n ** 40n), max: 10n ** 40n }).map((it) => ({ text: String(it), value: toShortest(it) })),
    fc.double({ noNaN: true, noDefaultInfinity: true }).map((it) => ({ text: toDecimal(it), value: toKind(it) })),
    fc.string({ unit: 'binary' }).map((it) => ({ text: JSON.stringify(it), value: it })),
    fc.constantFrom('9007199254740993', ':9007199254740993,', '[-9223372036854775808]').map((it) => ({
      text: JSON.stringify(it),
      value: it,
    })),
    fc.constantFrom(null, true, false).map((it) => ({ text: String(it), value: it })),
    fc.tuple(fc.array(tie('value')), spaces).map(([items, space]) => ({
      text: `[${space}${items.map((it) => it.text).join(`${space},${space}`)}${space}]`,
      value: items.map((it) => it.value),
    })),
    fc.tuple(fc.dictionary(fc.string(), tie('value')), spaces).map(([fields, space]) => ({
      text: `{${Object.entries(fields)
        .map(([name, it]) => `${space}${JSON.stringify(name)}${space}:${space}${it.text}`)
        .join(`${space},`)}${space}}`,
      value: toObject(Object.entries(fields).map(([name, it]) => [name, it.value])),
    })),
  ),
}))

/** As JSON.parse does: `__proto__` is a name like any other. */
function toObject(fields: [string, ExactJson][]): ExactJson {
  return Object.fromEntries(fields)
}

function toShortest(value: bigint): number | bigint {
  const short = Number(value)
  return Number.isSafeInteger(short) ? short : value
}

/** Digits of a float; some of its spellings are integers. */
function toDecimal(value: number): string {
  return Object.is(value, -0) ? '-0' : String(value)
}

function toKind(value: number): number | bigint {
  return Number.isInteger(value) && /^-?\d+$/.test(toDecimal(value)) ? plainZero(value) : value
}

function plainZero(value: number): number | bigint {
  return Object.is(value, -0) ? value : toShortest(BigInt(toDecimal(value)))
}

describe('parseExactJson', () => {
  it('keeps every integer and every float wherever they stand', () => {
    fc.assert(
      fc.property(jsonText, spaces, ({ text, value }, space) => {
        expect(parseExactJson(space + text + space)).toStrictEqual(value)
      }),
      { numRuns: 2_000 },
    )
  })

  it('agrees with JSON.parse on everything that JSON.parse does not round', () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        const text = JSON.stringify(value)
        fc.pre(!/\d{16}/.test(text))
        expect(parseExactJson(text)).toStrictEqual(JSON.parse(text))
      }),
    )
  })

  it.each([
    ['9007199254740993', 9007199254740993n],
    ['[-9223372036854775808]', [-(2n ** 63n)]],
    ['{"a":9223372036854775807}', { a: 2n ** 63n - 1n }],
    ['[1e18]', [1e18]],
    ['[1234567890123456.5]', [1234567890123456.5]],
    ['[12345678901234567890.5]', [Number('12345678901234567890.5')]],
    ['[12345678901234567890e2]', [Number('12345678901234567890e2')]],
    ['[-0]', [-0]],
  ])('reads %s', (text, value) => {
    expect(parseExactJson(text)).toStrictEqual(value)
  })

  it('very long digits overflow to a number, and do not block the process as a bigint', () => {
    expect(parseExactJson(`[${'9'.repeat(1_000_000)}]`)).toEqual([Number.POSITIVE_INFINITY])
  })
})

it('toJsonInteger makes JSON.stringify write every digit', () => {
  fc.assert(
    fc.property(fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }), (value) => {
      expect(JSON.stringify({ it: toJsonInteger(value) })).toBe(`{"it":${value}}`)
    }),
  )
})
