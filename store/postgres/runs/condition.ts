import { describeAttribute, isLong, isShort, type RunField, shortBytesMax } from './fields.ts'
import type { Parameters } from './parameters.ts'

/** What a run must be. Of a field without a value no test passes, also no negated one. */
export type RunCondition =
  | { is: 'and' | 'or'; of: RunCondition[] }
  | { is: 'not'; of: RunCondition }
  | { is: 'has'; field: RunField }
  /** One of the tests passes; negated: the field has a value, and none of its values passes any. */
  | { is: 'test'; field: RunField; tests: RunTest[]; isNegated: boolean }
  /** One of the experiments, by their ids as Postgres writes a list: `{1,2}`. */
  | { is: 'among'; ids: string }

type Comparison = '=' | '<' | '<=' | '>' | '>='

export type RunTest =
  /** As numbers, both; the number as it was written. */
  | { as: 'number'; comparison: Comparison; number: string }
  /** By code points. */
  | { as: 'text'; comparison: Comparison; text: string }
  /** `true` or `false`, ignoring case. */
  | { as: 'flag'; comparison: Comparison; flag: boolean }
  /** Has the text as a part, ignoring case. */
  | { as: 'part'; text: string }

/** A condition on an experiment `e`, as SQL over bound parameters. */
export function toSql(condition: RunCondition, aliveSinceMs: number, parameters: Parameters): string {
  return write(condition)

  function write(it: RunCondition): string {
    switch (it.is) {
      case 'and':
        return it.of.length === 0 ? 'true' : `(${it.of.map(write).join(' AND ')})`
      case 'or':
        return it.of.length === 0 ? 'false' : `(${it.of.map(write).join(' OR ')})`
      case 'not':
        return `NOT ${write(it.of)}`
      case 'among':
        return `e.id = ANY(${parameters.bindList(it.ids, 'bigint')})`
      case 'has':
        return writeHas(it.field)
      case 'test':
        return writeTest(it.field, it.tests, it.isNegated)
    }
  }

  function writeHas(field: RunField): string {
    if (field.of === 'run') return `${attribute(field.name).sql} IS NOT NULL`
    if (field.of === 'tags') return `EXISTS (${ofTags})`
    return `(EXISTS (${ofValues(field)} AND ${isShort('v.value')}) OR EXISTS (${ofValues(field)} AND ${isLong('v.value')}))`
  }

  function writeTest(field: RunField, tests: RunTest[], isNegated: boolean): string {
    if (field.of === 'run') {
      const { sql, asText, kind } = attribute(field.name)
      const passes = anyOf(
        tests.map((it) => (kind === 'number' ? testNumber(`(${sql})::float8`, it) : testText(asText, it))),
      )
      return isNegated ? `(${sql} IS NOT NULL AND ${passes} IS NOT TRUE)` : `${passes} IS TRUE`
    }
    if (field.of === 'tags') {
      const passes = `EXISTS (${ofTags} AND ${anyOf(tests.map((it) => testText('t.tag', it)))})`
      return isNegated ? `(EXISTS (${ofTags}) AND NOT ${passes})` : passes
    }
    const test = anyOf(tests.map((it) => testText('v.value', it)))
    const wanted = isNegated ? `${test} IS NOT TRUE` : test
    const short = `EXISTS (${ofValues(field)} AND ${isShort('v.value')} AND ${wanted})`
    const isOfLong = isNegated || tests.some(mayPassLong)
    return isOfLong ? `(${short} OR EXISTS (${ofValues(field)} AND ${isLong('v.value')} AND ${wanted}))` : short
  }

  function attribute(name: Extract<RunField, { of: 'run' }>['name']) {
    return describeAttribute(name, aliveSinceMs, parameters)
  }

  function ofValues({ of, name }: { of: string; name: string }): string {
    return `SELECT FROM experiment_values v WHERE v.experiment_id = e.id AND v.kind = ${parameters.bind(of, 'text')}
      AND v.name = ${parameters.bind(name, 'text')}`
  }

  /** True, false, or NULL where the value is NULL or cannot be compared. */
  function testText(value: string, test: RunTest): string {
    if (test.as === 'number') return testNumber(`number_of(${value})`, test, value)
    switch (test.as) {
      case 'text': {
        const wanted = parameters.bind(test.text, 'text')
        return test.comparison === '=' ? `${value} = ${wanted}` : `${value} COLLATE "C" ${test.comparison} ${wanted}`
      }
      case 'flag':
        return `lower(${value}) COLLATE "C" ${test.comparison} ${parameters.bind(String(test.flag), 'text')}`
      case 'part': {
        // The rules of a language cost four times as much, and change nothing in ASCII.
        const isAscii = /^[\0-\x7f]*$/.test(test.text)
        const lowered = isAscii ? `lower(${value})` : `lower(${value} COLLATE "und-x-icu")`
        return `position(${parameters.bind(test.text.toLowerCase(), 'text')} IN ${lowered}) > 0`
      }
    }
  }

  /** Postgres sorts NaN behind all numbers and equal to itself; no number is compared with it here. */
  function testNumber(sql: string, test: RunTest, text?: string): string {
    if (test.as !== 'number') return 'false'
    const { comparison } = test
    const number = Number(test.number)
    if (Number.isNaN(number)) return comparison.includes('=') ? `${sql} = 'NaN'` : 'false'
    const wanted = parameters.bind(String(number), 'float8')
    const plain = `(${sql} ${comparison} ${wanted}${comparison.startsWith('>') ? ` AND ${sql} < 'NaN'` : ''})`
    const isExact = Number.isSafeInteger(number) || !/^[+-]?\d+$/.test(test.number)
    if (isExact || text === undefined) return plain
    // Beyond 2^53 two integers may be the same float.
    return `CASE WHEN ${sql} = ${wanted} AND ${text} ~ '^\\s*[+-]?[0-9]+\\s*$'
      THEN ${text}::numeric ${comparison} ${parameters.bind(test.number, 'text')}::numeric ELSE ${plain} END`
  }
}

const ofTags = 'SELECT FROM experiment_tags t WHERE t.experiment_id = e.id'

const anyOf = (tests: string[]) => (tests.length === 0 ? 'false' : `(${tests.join(' OR ')})`)

/** Whether a value may pass that is no entry of the index by name. */
const mayPassLong = (test: RunTest) =>
  test.as === 'part' ||
  (test.as === 'text' && (test.comparison !== '=' || Buffer.byteLength(test.text) > shortBytesMax))
