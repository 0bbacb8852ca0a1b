import { describeAttribute, isLong, isShort, type RunField } from './fields.ts'
import type { Parameters } from './parameters.ts'

/** What runs are ordered or grouped by. The values of a metric are given, by the ids of their runs: lists as Postgres writes them. */
export type RunKey = RunField | { of: 'given'; ids: string; values: string }

/** The value of a key: null where a run has none. Numbers of Postgres that JSON has no form for stay numbers. */
export type KeyValue = string | number | bigint | boolean | string[] | null

export type Direction = 'asc' | 'desc'

/**
 * The place of a value in an order: numbers, then NaN, then text ignoring case, then no value. The direction does not move what
 * has no value.
 */
export type SortKey = [rank: 0 | 1 | 2 | 3, value: number | string]

const textCharactersMax = 1_000

type Columns = {
  /** What to join, and what to select: `c0` is the value of the key 0, `n0` the number that it is, if any. */
  joins: string
  selected: string
}

/** The columns of keys over an experiment `e`. */
export function selectKeys(keys: RunKey[], aliveSinceMs: number, parameters: Parameters): Columns {
  const parts = keys.map((key, at) => {
    const [value, number] = [`c${at}`, `n${at}`]
    switch (key.of) {
      case 'run': {
        const { kind, sql } = describeAttribute(key.name, aliveSinceMs, parameters)
        const asNumber =
          kind === 'number' ? `(${sql})::float8` : kind === 'flag' ? `(${sql})::int::float8` : `number_of(${sql})`
        return { join: '', selected: `${sql} AS ${value}, ${asNumber} AS ${number}` }
      }
      case 'tags':
        return {
          join: '',
          selected: `ARRAY(SELECT t.tag FROM experiment_tags t WHERE t.experiment_id = e.id ORDER BY t.added_at, t.tag) AS ${value},
            NULL::float8 AS ${number}`,
        }
      case 'given':
        return {
          join: `LEFT JOIN unnest(${parameters.bindList(key.ids, 'bigint')}, ${parameters.bindList(key.values, 'float8')})
            AS g${at}(id, value) ON g${at}.id = e.id`,
          selected: `g${at}.value AS ${value}, g${at}.value AS ${number}`,
        }
      default: {
        const { join, value: text } = joinValue(key, at, parameters)
        return { join, selected: `${text} AS ${value}, s${at}.number AS ${number}` }
      }
    }
  })
  return { joins: parts.map((it) => it.join).join(' '), selected: parts.map((it) => `, ${it.selected}`).join('') }
}

/** A parameter or an other. Of long values there are few, and none of most names, which one look into their index tells. */
export function joinValue({ of, name }: { of: string; name: string }, at: number, parameters: Parameters) {
  const isNamed = (alias: string) =>
    `${alias}.kind = ${parameters.bind(of, 'text')} AND ${alias}.name = ${parameters.bind(name, 'text')}`
  const long = `FROM experiment_values l WHERE ${isNamed('l')} AND ${isLong('l.value')}`
  return {
    // The number is in the index, from where only a query of its own takes it.
    join: `LEFT JOIN (SELECT v.experiment_id, v.value, number_of(v.value) AS number FROM experiment_values v
      WHERE ${isNamed('v')} AND ${isShort('v.value')}) AS s${at} ON s${at}.experiment_id = e.id`,
    value: `coalesce(s${at}.value, CASE WHEN EXISTS (SELECT ${long}) THEN (SELECT l.value ${long} AND l.experiment_id = e.id) END)`,
  }
}

/** The rank and the sorted text of a key, over the columns of `selectKeys`. */
export function selectPlace({ of }: RunKey, at: number): string {
  const text = of === 'tags' ? `array_to_string(c${at}, ', ')` : `c${at}::text`
  const isAbsent = of === 'tags' ? `cardinality(c${at}) = 0` : `c${at} IS NULL`
  return `CASE WHEN ${isAbsent} THEN 3 WHEN n${at} IS NULL THEN 2 WHEN n${at} = 'NaN' THEN 1 ELSE 0 END AS r${at},
    CASE WHEN n${at} IS NULL THEN left(lower(${text}), ${textCharactersMax}) END COLLATE "C" AS t${at}`
}

/** The order of rows with `selectPlace`. */
export const orderOf = (directions: Direction[]) =>
  directions.flatMap((it, at) => [`r${at} = 3`, `r${at} ${it}`, `n${at} ${it}`, `t${at} ${it}`])

/** Whether a row comes behind a place. */
export function isBehind(keys: SortKey[], id: bigint, directions: Direction[], parameters: Parameters): string {
  const last = `id < ${parameters.bind(id, 'bigint')}`
  return keys.reduceRight((rest, [rank, value], at) => {
    const beyond = directions[at] === 'desc' ? '<' : '>'
    const column = rank === 2 ? `t${at}` : rank === 0 ? `n${at}` : undefined
    // Postgres refuses a value that no text names.
    const wanted = column && parameters.bind(String(value), rank === 2 ? 'text' : 'float8')
    const isSame = `r${at} = ${rank}${column ? ` AND ${column} = ${wanted}` : ''}`
    if (rank === 3) return `(${isSame} AND ${rest})`
    const isFurther = column ? ` OR (r${at} = ${rank} AND ${column} ${beyond} ${wanted})` : ''
    return `(r${at} = 3 OR r${at} ${beyond} ${rank}${isFurther} OR (${isSame} AND ${rest}))`
  }, last)
}
