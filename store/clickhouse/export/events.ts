import type { ClickHouse } from '../connection.ts'
import { ofScope, quote } from '../monitoring/expressions.ts'
import type { EventScope, FeatureName } from '../monitoring/scope.ts'
import { inScope, selectValues } from '../monitoring/stored.ts'
import {
  eventKinds,
  eventsTable,
  tombstonesTable,
  type ValuePart,
  valueColumnNames,
  valueParts,
} from '../monitoring/tables.ts'
import { quoteName } from './names.ts'

/**
 * A value of events as a column of the export. `number` has numbers only, and `flag` booleans only. Anything else is text as it
 * was sent: strings, the digits of integers that no float holds, and what was of several types.
 */
export type EventColumn = FeatureName & { type: 'number' | 'flag' | 'text' }

const named = Object.fromEntries(Object.entries(valueParts).map(([name, code]) => [code, name as ValuePart]))

/** The columns that events of a scope have, by part and name. */
export async function listEventColumns(clickhouse: ClickHouse, scope: EventScope): Promise<EventColumn[]> {
  const rows = await clickhouse.rows<Record<'part' | 'name' | 'numbers' | 'flags' | 'texts', string>>(
    `SELECT part, name, countIf(type IN (1, 2) AND text = '') AS numbers, countIf(type = 3) AS flags,
       countIf(type = 4 OR text != '') AS texts
     FROM (${selectValues(clickhouse.database, 'part, name, type, text', inScope(scope))}) GROUP BY part, name ORDER BY part, name`,
  )
  return rows.map(({ part, name, ...counts }) => {
    const [numbers, flags, texts] = [counts.numbers, counts.flags, counts.texts].map(Number)
    const type = texts || (numbers && flags) ? 'text' : flags ? 'flag' : 'number'
    return { part: named[part] as ValuePart, name, type }
  })
}

/**
 * The query of the events, one row each, in the order in which they were accepted. Each value has its place in arrays, so that a
 * model with a thousand features costs as much for each value as one with ten. A repeated delivery of a row changes nothing.
 */
export function selectEvents({ database }: ClickHouse, scope: EventScope, columns: EventColumn[]): string {
  const size = Math.max(1, columns.length)
  const keys = columns.map((it) => quote(`${valueParts[it.part]} ${it.name}`))
  const place = `transform(concat(toString(part), ' ', name), [${keys.join(', ')}]::Array(String), range(toUInt32(${columns.length}))::Array(UInt32), toUInt32(${size}))`
  const isValue = `part != 0 AND at < ${size}`
  const insert = (none: string, value: string, as: string) =>
    `groupArrayInsertAtIf(${none}, ${size})(${value}, at, ${isValue}) AS ${as}`
  return `SELECT prediction_id, version, fromUnixTimestamp64Milli(timestamp, 'UTC') AS time,
      fromUnixTimestamp64Milli(received, 'UTC') AS received_time${columns.map((it, at) => `, ${toValue(it, at + 1)}`).join('')}
    FROM (SELECT claim, place, anyIf(id, part = 0) AS prediction_id, any(version) AS version, any(timestamp) AS timestamp,
        anyIf(received, part = 0) AS received, ${insert('toUInt8(0)', 'type', 'types')},
        ${insert('toFloat64(0)', 'number', 'numbers')}, ${insert(`''`, 'text', 'texts')}
      FROM (
        SELECT claim, place, toString(version) AS version, timestamp, received, prediction_id AS id, toUInt8(0) AS part,
          toUInt8(0) AS type, toFloat64(0) AS number, '' AS text, toUInt32(0) AS at
        FROM ${database}.${eventsTable.name} WHERE ${ofScope(scope)}
        UNION ALL
        SELECT claim, place, toString(version) AS version, timestamp, toInt64(0) AS received, '' AS id, part, type, number,
          toString(its.text) AS text, ${place} AS at
        FROM (${selectValues(database, valueColumnNames, inScope(scope))}) AS its)
      WHERE (claim, place) NOT IN (SELECT claim, place FROM ${database}.${tombstonesTable.name}
        WHERE model_id = ${scope.modelId} AND kind = ${eventKinds[scope.kind]})
      GROUP BY claim, place HAVING countIf(part = 0) > 0)
    ORDER BY claim, place`
}

function toValue({ part, name, type }: EventColumn, at: number): string {
  const [kind, number, text] = [`types[${at}]`, `numbers[${at}]`, `texts[${at}]`]
  const as = quoteName(`${part}s.${name}`)
  if (type === 'number') return `if(${kind} = 0, NULL, ${number}) AS ${as}`
  if (type === 'flag') return `if(${kind} = 0, NULL, CAST(${number} != 0, 'Bool')) AS ${as}`
  return `multiIf(${kind} = 0, NULL, ${kind} = 3, if(${number} = 0, 'false', 'true'), ${kind} = 4 OR ${text} != '', ${text},
    toString(${number})) AS ${as}`
}
