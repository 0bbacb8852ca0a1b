import type { ClickHouse } from '../clickhouse/connection.ts'
import {
  type Among,
  type FirstOf,
  findByMetric,
  idsAtOnceMax,
  type MetricPart,
  type MetricTest,
  readFirst,
  readMetric,
} from '../clickhouse/points/metric-search.ts'
import type { Queries } from '../postgres/database.ts'
import type { RunCondition, RunTest } from '../postgres/runs/condition.ts'
import type { RunField } from '../postgres/runs/fields.ts'
import { listIds, listIdsByValue, type RunScope, readIdRange } from '../postgres/runs/find-runs.ts'
import { toNumber } from './numbers.ts'
import { attributes, type Field, fieldsOfWords, type Query, type Test, type Value } from './query.ts'
import { choose } from './turns.ts'

type Stores = { reads: Queries; clickhouse: ClickHouse }
/** The runs that a question is about. */
export type RunsAsked = Omit<RunScope, 'condition'>

/**
 * Turns queries into conditions on what Postgres keeps. What they ask of metrics is found in ClickHouse first, and regular
 * expressions are tried here, on each value that the project has: RE2 is in neither language of patterns that Postgres knows.
 */
export function createConditions({ reads, clickhouse }: Stores, runs: RunsAsked, nowMs: number) {
  let among: Promise<Among> | undefined

  return {
    toCondition,
    has,
    findAmong,
    readMetric: async (part: MetricPart) => await readMetric(clickhouse, await findAmong(), part),
    readFirst: async (part: MetricPart, first: FirstOf) => await readFirst(clickhouse, await findAmong(), part, first),

    /** The runs in which a metric is this number, or NaN. */
    async isNumber(part: MetricPart, number: number): Promise<RunCondition> {
      const tests = [{ comparison: '=' as const, number }]
      return { is: 'among', ids: await findByMetric(clickhouse, await findAmong(), part, { tests, isNegated: false }) }
    },

    /** The runs with these tags and no other, added in this order. */
    async hasTags(tags: string[]): Promise<RunCondition> {
      const found = await listIdsByValue(reads, { ...runs, condition: all }, { of: 'tag list' })
      const wanted = JSON.stringify(tags)
      return {
        is: 'among',
        ids: toIds(found.flatMap((it) => (JSON.stringify(JSON.parse(it.value)) === wanted ? it.ids : []))),
      }
    },
  }

  /** The experiments that ClickHouse looks at. */
  function findAmong(): Promise<Among> {
    among ??= (async () => {
      const { count, low, high } = await readIdRange(reads, runs.projectId)
      if (count > idsAtOnceMax) return { low, high }
      return { ids: await listIds(reads, runs.projectId) }
    })()
    return among
  }

  async function toCondition(query: Query): Promise<RunCondition> {
    switch (query.is) {
      case 'and':
      case 'or':
        return { is: query.is, of: await Promise.all(query.of.map(toCondition)) }
      case 'not':
        return { is: 'not', of: await toCondition(query.of) }
      case 'has':
        return anyOf(await Promise.all(toSources(query.field).map(has)))
      case 'word': {
        const test: RunTest = { as: 'part', text: query.text }
        const fields = fieldsOfWords.flatMap(toSources)
        return anyOf(fields.flatMap((field) => ('metric' in field ? [] : [passing(field, [test])])))
      }
      case 'test':
        return await toTest(query)
    }
  }

  async function toTest(test: Test): Promise<RunCondition> {
    const sources = toSources(test.field)
    const [source] = sources
    if (sources.length === 1 && source) return await passes(source, test)
    const positive = { ...test, isNegated: false }
    const passed = anyOf(await Promise.all(sources.map((it) => passes(it, positive))))
    if (!test.isNegated) return passed
    return { is: 'and', of: [anyOf(await Promise.all(sources.map(has))), { is: 'not', of: passed }] }
  }

  async function has(source: Source): Promise<RunCondition> {
    if (!('metric' in source)) return { is: 'has', field: source }
    const tests = { tests: 'any' as const, isNegated: false }
    return { is: 'among', ids: await findByMetric(clickhouse, await findAmong(), source.metric, tests) }
  }

  async function passes(source: Source, test: Test): Promise<RunCondition> {
    const { values, isNegated, operator } = test
    if (operator === '~' || operator === 'like' || operator === 'ilike') return await matches(source, test)
    const comparison = operator === 'in' ? '=' : operator
    if ('metric' in source) {
      const tests = values.flatMap((it) => toMetricTest(it, comparison))
      return {
        is: 'among',
        ids: await findByMetric(clickhouse, await findAmong(), source.metric, { tests, isNegated }),
      }
    }
    const type = test.field.source === 'attribute' ? attributes[test.field.name]?.type : undefined
    if (type === 'time' || type === 'duration') {
      const passed = anyOf(values.map((it) => compareTimes(source, comparison, type, it)))
      // A run has all its times.
      return isNegated ? { is: 'not', of: passed } : passed
    }
    const tests = values.map((it): RunTest => {
      if (type === 'state') return { as: 'text', comparison, text: toState(it.text) }
      if (it.is === 'number') return { as: 'number', comparison, number: it.text }
      if (it.is === 'flag') return { as: 'flag', comparison, flag: it.flag }
      return { as: 'text', comparison, text: it.text }
    })
    return { is: 'test', field: source, tests, isNegated }
  }

  function compareTimes(
    field: RunField,
    comparison: MetricTest['comparison'],
    type: 'time' | 'duration',
    value: Value,
  ) {
    const test = (comparison: MetricTest['comparison'], number: number) =>
      passing(field, [{ as: 'number', comparison, number: String(number) }])
    if (type === 'duration') {
      if (value.is === 'duration') return test(comparison, value.ms)
      return value.is === 'number' ? test(comparison, value.number * 1_000) : never
    }
    if (value.is === 'duration') return test(comparison, nowMs - value.ms)
    if (value.is === 'number') return test(comparison, value.number)
    if (value.is !== 'time') return never
    // A day, a minute or a second is equal to each moment of it.
    const { fromMs, toMs } = value
    switch (comparison) {
      case '=':
        return { is: 'and' as const, of: [test('>=', fromMs), test('<', toMs)] }
      case '<':
      case '>=':
        return test(comparison, fromMs)
      case '<=':
        return test('<', toMs)
      case '>':
        return test('>=', toMs)
    }
  }

  async function matches(source: Source, { values, isNegated }: Test): Promise<RunCondition> {
    const isMatched = (text: string) => values.some((it) => it.is === 'pattern' && it.matches(text))
    const found =
      'metric' in source
        ? await listMetricValues(source.metric)
        : await listIdsByValue(reads, { ...runs, condition: all }, source)
    const isOfTags = !('metric' in source) && source.of === 'tags'
    const chosen = await choose(found, (it) => isMatched(it.value) !== (isNegated && !isOfTags))
    const among: RunCondition = { is: 'among', ids: toIds(chosen.map((it) => it.ids)) }
    // A run has several tags, of which none may match.
    return isNegated && isOfTags
      ? {
          is: 'and',
          of: [
            { is: 'has', field: source },
            { is: 'not', of: among },
          ],
        }
      : among
  }

  async function listMetricValues(metric: MetricPart): Promise<{ value: string; ids: string }[]> {
    const { ids, values } = await readMetric(clickhouse, await findAmong(), metric)
    const numbers = split(values)
    return split(ids).map((id, at) => ({ ids: `{${id}}`, value: String(toNumber(numbers[at] as string)) }))
  }
}

/** Every run. */
export const all: RunCondition = { is: 'and', of: [] }
const never: RunCondition = { is: 'or', of: [] }

const anyOf = (of: RunCondition[]): RunCondition => (of.length === 1 ? (of[0] as RunCondition) : { is: 'or', of })

const passing = (field: RunField, tests: RunTest[]): RunCondition => ({ is: 'test', field, tests, isNegated: false })

/** Where a field is kept. */
type Source = RunField | { metric: MetricPart }

function toSources({ source, name, of }: Field): Source[] {
  const metric = { metric: { name, of } }
  switch (source) {
    case 'attribute': {
      const column = attributes[name]?.column
      return column === undefined ? [] : [column === 'tags' ? { of: 'tags' } : { of: 'run', name: column }]
    }
    case 'metric':
      return [metric]
    case 'parameter':
      return [{ of: 'parameter', name }]
    case 'other':
    case 'tag':
      return [{ of: 'other', name }]
    case 'any':
      return [{ of: 'parameter', name }, { of: 'other', name }, metric]
  }
}

/** A metric is compared with numbers only. */
function toMetricTest(value: Value, comparison: MetricTest['comparison']): MetricTest[] {
  const number = value.is === 'number' ? value.number : value.is === 'text' ? toNumber(value.text) : undefined
  return number === undefined ? [] : [{ comparison, number }]
}

/** Two states have other names in MLflow. */
const states = new Map([
  ['failed', 'crashed'],
  ['killed', 'lost'],
])
const toState = (text: string) => states.get(text.toLowerCase()) ?? text.toLowerCase()

const split = (list: string) => (list === '{}' ? [] : list.slice(1, -1).split(','))

/** One list of ids out of several, as Postgres writes lists. */
export const toIds = (lists: string[]) => `{${lists.map((it) => it.slice(1, -1)).join(',')}}`
