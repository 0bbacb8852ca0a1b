import fc from 'fast-check'

const depth = 100_000
const nested = (open: string, middle: string, close: string, levels: number) =>
  open.repeat(levels) + middle + close.repeat(levels)

/** Number literals inside and outside the range of 64-bit floats and integers, and invalid ones. */
const numbers = [
  ...[
    '0',
    '-0',
    '1',
    '-1',
    '0.5',
    '1e-400',
    '1e308',
    '1e400',
    '-1e400',
    '1E+2',
    '5e-324',
    '01',
    '.5',
    '5.',
    '+1',
    '1e',
  ],
  ...['9007199254740993', '9223372036854775807', '9223372036854775808', '-9223372036854775808', '-9223372036854775809'],
  ...['18446744073709551616', '9'.repeat(400), '9'.repeat(5_000), `0.${'0'.repeat(5_000)}1`, `1e${'9'.repeat(300)}`],
  ...['NaN', 'Infinity', '-Infinity', '0x10', '1_000', '1n'],
]

const texts = [
  ...['', ' ', 'x', 'true', 'null', 'NaN', 'nan', '-inf', 'Infinity', '1e400', '0x10', ' 1 ', '1,5', '１'],
  ...[
    '\0',
    'a\0b',
    '\u{10ffff}',
    '\u202e',
    '\ufeff',
    'e\u0301',
    '../../etc/passwd',
    "'; DROP TABLE points; --",
    '{name:String}',
  ],
  ...['__proto__', 'constructor', 'toString', 'hasOwnProperty', '%00', '%', '_', '_'.repeat(1_000), '\\', '"', '\n'],
  ...['x'.repeat(101), 'x'.repeat(1_001), '漢'.repeat(1_000), 'x'.repeat(100_001)],
]

/** Half of a surrogate pair can be written in JSON, but not in UTF-8. */
const halfPairs = ['"\\ud800"', '"\\udc00\\ud800"', '"a\\udfffb"', '{"\\ud800":1}']

const prototypes = [
  '{"__proto__":{"isAdmin":true}}',
  '{"constructor":{"prototype":{"isAdmin":true}}}',
  '{"__proto__":null,"toString":1,"valueOf":1,"hasOwnProperty":1}',
  '[{"__proto__":[]}]',
  '{"then":1,"toJSON":1,"length":-1}',
]

/** Values for any field as JSON text; most are wrong for most fields. */
export const wrongValues: readonly string[] = [
  ...[
    'null',
    'true',
    'false',
    '[]',
    '{}',
    '[[]]',
    '[null]',
    '[{}]',
    '[1,"x",null,{}]',
    '{"a":{"b":[]}}',
    '{"length":1}',
  ],
  ...numbers,
  ...numbers.map((it) => `"${it}"`),
  ...texts.map((it) => JSON.stringify(it)),
  ...halfPairs,
  ...prototypes,
  ...[
    '',
    'undefined',
    "'x'",
    '"',
    '"\\x"',
    '"\\u12"',
    '"\t"',
    '[1,]',
    '[,]',
    '{"a":1,}',
    '{a:1}',
    '/**/1',
    '1 2',
    '[',
    '{',
  ],
  `[${'1,'.repeat(3_000)}1]`,
  `[${'null,'.repeat(3_000)}null]`,
  nested('[', '', ']', 1_000),
  nested('{"a":', '1', '}', 1_000),
]

/** Values of query fields, percent-encoded. */
export const wrongQueryValues: readonly string[] = [
  ...['', '%', '%0', '%00', '%ff', '%c0%80', '%ed%a0%80', '%zz', '+', '%2B', '&', '=', '#', '[]', '[0]=1', '?'],
  ...[...numbers, ...texts].filter((it) => it.length < 5_000).map((it) => encodeURIComponent(it)),
  ...['a'.repeat(2_002), '_'.repeat(2_000), '%5F'.repeat(2_000)],
]

/** JSON so deep that a recursive parser runs out of stack, complete and incomplete. */
export const deepTexts: readonly string[] = [
  nested('[', '', ']', depth),
  nested('{"a":', '1', '}', depth),
  nested('[{"a":', '1', '}]', depth / 2),
  '['.repeat(depth),
  '{"a":'.repeat(depth),
  nested('{"__proto__":', '{}', '}', depth / 2),
  nested('{"metrics":[', '', ']}', depth / 2),
]

/** Duplicate members, to be put into any object. */
export const repeatedMembers: readonly string[] = [
  '"experimentKey":"x","experimentKey":null,',
  '"metricValue":1,"metricValue":"x","metricValue":2,',
  '"metrics":[],"metrics":{},',
  '"__proto__":{"a":1},"__proto__":{"b":2},',
  '"a":1,'.repeat(2_000),
]

/** Bodies of any shape with known field names. */
export function sampleBodies(names: string[], seed: number, count: number): string[] {
  const scalar = fc.oneof(
    fc.string({ unit: 'binary', maxLength: 20 }),
    fc.constantFrom(...texts.filter((it) => it.length < 200)),
    fc.double(),
    fc.maxSafeInteger(),
    fc.boolean(),
    fc.constant(null),
  )
  const { body } = fc.letrec<{ body: unknown }>((tie) => ({
    body: fc.oneof(
      { maxDepth: 4, depthSize: 'small' },
      { weight: 3, arbitrary: scalar },
      { weight: 1, arbitrary: fc.array(tie('body'), { maxLength: 6 }) },
      { weight: 4, arbitrary: fc.dictionary(fc.constantFrom(...names), tie('body'), { maxKeys: 6 }) },
    ),
  }))
  return fc.sample(body, { numRuns: count, seed }).map((it) => JSON.stringify(it))
}
