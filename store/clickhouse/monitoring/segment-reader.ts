import { categoryOf, isMissing, isNumber, ofModel } from './expressions.ts'
import type { EventReader } from './reader.ts'
import { type EventScope, kindOfPart } from './scope.ts'
import type { Source } from './source.ts'
import { inScope, selectValues, storedEvents } from './stored.ts'
import { eventsTable, valueParts } from './tables.ts'

export const operators = [
  'equals',
  'not equals',
  'in',
  'below',
  'at most',
  'above',
  'at least',
  'missing',
  'present',
] as const

/** A condition on one value of an event. `values` has one, for `in` some, for `missing` and `present` none. */
export type Filter = {
  part: 'feature' | 'prediction'
  feature: string
  operator: (typeof operators)[number]
  values: (string | number | boolean)[]
}

const comparisons = { below: '<', 'at most': '<=', above: '>', 'at least': '>=' } as const

/**
 * An event reader that sees only the events that meet all filters, and their labels. Every question about events can be asked
 * of it. It reads raw rows: rollups do not know which event a value is of. Names and values of filters are bound parameters,
 * and never part of a statement.
 *
 * @param whole a model whose events are all read: a reference
 */
export function createSegmentReader(reader: EventReader, filters: Filter[], whole?: bigint): EventReader {
  const { clickhouse } = reader
  const { database } = clickhouse
  const params: Record<string, unknown> = {}
  const bind = (type: string, value: unknown) => {
    const name = `segment_${Object.keys(params).length}`
    params[name] = value
    return `{${name}:${type}}`
  }
  const conditions = filters.map((it) => ({
    ...toCondition(it, bind),
    part: it.part,
    name: bind('String', it.feature),
  }))

  /** The condition on an event of this scope. */
  function isMatching(scope: EventScope): string {
    return conditions
      .map(
        ({ part, name, sql, isOther }) =>
          `(claim, place) ${isOther ? 'NOT IN' : 'IN'} (${selectValues(
            database,
            'claim, place',
            inScope(
              { ...scope, kind: kindOfPart(part, scope.kind) },
              `part = ${valueParts[part]} AND name = ${name}`,
              `NOT ${isMissing} AND ${sql}`,
            ),
          )})`,
      )
      .join(' AND ')
  }

  function isOfMatching({ scope, stored }: Source): string {
    if (scope.kind !== 'LATE_LABELS') return isMatching(scope)
    // Labels are of the segment when their events are, whenever they were.
    const ofEvents = { modelId: scope.modelId, kind: 'EVENTS' } as const
    const events = `${database}.${eventsTable.name}`
    const isLabel = `id_hash IN (SELECT id_hash FROM ${events} WHERE ${ofModel(ofEvents)} AND ${isMatching(ofEvents)})`
    if (stored === storedEvents) return isLabel
    return `(claim, place) IN (SELECT claim, place FROM ${events} WHERE ${ofModel(scope)} AND ${isLabel})`
  }

  async function read<Row>(sources: Source[], toQuery: (tables: string[]) => string): Promise<Row[]> {
    let rows: Row[] = []
    const filtered = sources.map((it) =>
      it.scope.modelId === whole ? it : { ...it, rollups: [], condition: isOfMatching(it) },
    )
    await reader.run(filtered, async (tables) => {
      rows = await clickhouse.rows<Row>(toQuery(tables), params)
    })
    return rows
  }

  return {
    ...reader,
    read,
    readCached: read,
    // Nothing is rolled up, so no feature is rounded or hashed.
    rolledFeatures: async () => () => undefined,
  }
}

type Bind = (type: string, value: unknown) => string

/** The SQL of a filter on a value that is there; `isOther` when events with such a value are those to leave out. */
function toCondition({ operator, values }: Filter, bind: Bind): { sql: string; isOther: boolean } {
  if (operator === 'present' || operator === 'missing') return { sql: 'true', isOther: operator === 'missing' }
  if (operator === 'equals' || operator === 'in') return { sql: isAmong(values, bind), isOther: false }
  // The event has a value, but another one.
  if (operator === 'not equals') return { sql: `NOT ${isAmong(values, bind)}`, isOther: false }
  return { sql: `${isNumber} AND number ${comparisons[operator]} ${bind('Float64', values[0])}`, isOther: false }
}

/** A number is compared as a number; texts and booleans as categories, where true is the same as "true". */
function isAmong(values: Filter['values'], bind: Bind): string {
  const numbers = values.filter((it) => typeof it === 'number')
  const texts = values.filter((it) => typeof it !== 'number').map(String)
  const conditions = [
    ...(numbers.length > 0 ? [`(${isNumber} AND has(${bind('Array(Float64)', numbers)}, number))`] : []),
    ...(texts.length > 0 ? [`(NOT ${isNumber} AND has(${bind('Array(String)', texts)}, ${categoryOf}))`] : []),
  ]
  return `(${conditions.join(' OR ')})`
}
