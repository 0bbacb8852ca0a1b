import { createDistributed, type Layout, onCluster, toEngine, toLocal } from '../../cluster/layout.ts'
import type { Table } from '../../table.ts'
import { chunksTable } from '../chunks.ts'
import { pointsTable, present, storedValue } from '../tables.ts'

/**
 * One row per series: its minimum, its maximum, its current point, and its extent. Workers add to it with each insert, so
 * reading it costs the same for any number of points. All fields but `rows` are idempotent: a repeated point does not
 * change them.
 *
 * Each of the three points is encoded as a key of four words, most significant first. Keys are compared as one number, and
 * the point is decoded from its key. The alternative, `argMin` over a tuple, keeps an object per series and insert: with
 * one point for each of 5,000 series, keys reduced the cost from 10 us of ClickHouse per point to 4 (measured).
 */
export const summaryTable = 'points_summary'

const int64Top = '9223372036854775808'
const uint64Max = '18446744073709551615'

/** Integers and floats as words that sort in their order: -inf < ... < -0 < 0 < ... < inf < NaN. */
const fromInt64 = (value: string) => `bitXor(reinterpretAsUInt64(${value}), ${int64Top})`
const toInt64 = (word: string) => `reinterpretAsInt64(bitXor(${word}, ${int64Top}))`
const fromFloatBits = (bits: string) => `bitXor(${bits}, if(bitTest(${bits}, 63), ${uint64Max}, ${int64Top}))`
const toFloat = (word: string) =>
  `reinterpretAsFloat64(bitXor(${word}, if(bitTest(${word}, 63), ${int64Top}, ${uint64Max})))`

/** Copies the bytes: shifting and adding costs twice as much. */
const pack = (...words: [string, string, string, string]) =>
  `reinterpretAsUInt256(concat(${words
    .toReversed()
    .map((it) => `reinterpretAsFixedString(${it})`)
    .join(', ')}))`
const word = (key: string, place: 0 | 1 | 2 | 3) => `toUInt64(bitShiftRight(${key}, ${192 - 64 * place}))`

/** The value of the minimum and of the maximum, as words that sort as floats do, and back. */
export const summaryWords = { leastWord: word('minimum', 0), greatestWord: word('maximum', 0), toFloat }

const [time, step] = [fromInt64('time'), fromInt64('step')]

/** NaN is the minimum or maximum only of a series of NaN. Both words are decoded as NaN. */
const [nanLast, nanFirst] = [uint64Max, '0']
const valueWord = (nan: string) => `if(isNaN(${storedValue}), ${nan}, ${fromFloatBits('value_bits')})`

/** Of points with the same value, the one with the smallest time, then step. */
const minimumKey = pack(valueWord(nanLast), time, step, 'toUInt64(present)')
const maximumKey = pack(valueWord(nanFirst), `bitNot(${time})`, `bitNot(${step})`, 'toUInt64(present)')

/** The newest by time, then by step, then by order of arrival. */
const arrival = `bitOr(bitShiftLeft(request_lo, 24), bitOr(bitShiftLeft(toUInt64(place), 4), toUInt64(present)))`
const currentKey = pack(time, step, 'request_hi', arrival)

const key = (pick: 'min' | 'max') => `SimpleAggregateFunction(${pick}, UInt256)`

type Aggregate = { name: string; type: string; from: string }

const aggregates: Aggregate[] = [
  { name: 'minimum', type: key('min'), from: `min(${minimumKey})` },
  { name: 'maximum', type: key('max'), from: `max(${maximumKey})` },
  { name: 'current', type: key('max'), from: 'max(current_key)' },
  // The key of the current point has no room for its value.
  {
    name: 'current_bits',
    type: 'AggregateFunction(argMax, UInt64, UInt256)',
    from: 'argMaxState(value_bits, current_key)',
  },
  // An upper bound, never shown: repeated deliveries are counted again, and what both a view and a worker add.
  { name: 'rows', type: 'SimpleAggregateFunction(sum, UInt64)', from: 'count()' },
  { name: 'step_low', type: 'SimpleAggregateFunction(min, Int64)', from: 'min(step)' },
  { name: 'step_high', type: 'SimpleAggregateFunction(max, Int64)', from: 'max(step)' },
  { name: 'time_low', type: 'SimpleAggregateFunction(min, Int64)', from: 'min(time)' },
  { name: 'time_high', type: 'SimpleAggregateFunction(max, Int64)', from: 'max(time)' },
  { name: 'has_nan', type: 'SimpleAggregateFunction(max, UInt8)', from: `max(isNaN(${storedValue}))` },
  // The bits that all points have, and those that any point has.
  { name: 'present_all', type: 'SimpleAggregateFunction(groupBitAnd, UInt8)', from: 'groupBitAnd(present)' },
  { name: 'present_any', type: 'SimpleAggregateFunction(groupBitOr, UInt8)', from: 'groupBitOr(present)' },
]

const withTime = `if(bitAnd(present, ${present.timestamp}) != 0, timestamp, received) AS time`
const series = 'experiment_id, metric, context'

/**
 * The views that filled the summary before workers did (`states.ts`). A database that workers of an earlier version may write
 * to keeps them for a day: what both add is the same.
 */
export const summaryViews = [`${summaryTable}_view`, `${summaryTable}_chunks_view`] as const

/** The statements that create the table and the view that fills it. */
export function createSummary(layout: Layout, settings: string): string[] {
  const { database } = layout
  const local = toLocal(layout, summaryTable)
  return [
    `CREATE TABLE IF NOT EXISTS ${database}.${local}${onCluster(layout)} (
      experiment_id UInt64, metric LowCardinality(String), context LowCardinality(String),
      ${aggregates.map((it) => `${it.name} ${it.type} CODEC(ZSTD(1))`).join(', ')}
    ) ENGINE = ${toEngine(layout, local, 'AggregatingMergeTree')} ORDER BY (${series}) SETTINGS ${settings}`,
    `CREATE MATERIALIZED VIEW IF NOT EXISTS ${database}.${summaryViews[0]}${onCluster(layout)} TO ${database}.${local} AS
     ${selectSummary(`${database}.${toLocal(layout, pointsTable.name)}`)}`,
    ...createDistributed(layout, summaryTable, 'experiment_id'),
  ]
}

/** The view that fills the summary from chunks. */
export const createSummaryOfChunks = (layout: Layout): string =>
  `CREATE MATERIALIZED VIEW IF NOT EXISTS ${layout.database}.${summaryViews[1]}${onCluster(layout)}
     TO ${layout.database}.${toLocal(layout, summaryTable)} AS
     ${selectSummaryOfChunks(`${layout.database}.${toLocal(layout, chunksTable.name)}`)}`

/** The query of the view. Over all stored points it returns the whole summary. */
export const selectSummary = (points: string, where = 'true') =>
  `WITH ${withTime}, ${currentKey} AS current_key
     SELECT ${series}, ${aggregates.map((it) => `${it.from} AS ${it.name}`).join(', ')}
     FROM ${points} WHERE ${where} GROUP BY ${series}`

/**
 * The same from chunks. Of a plain chunk, the three points are among its least, its greatest and its last. What is joined are the
 * points themselves: with their places, the lists of the chunk would be copied for each of its points.
 */
export const selectSummaryOfChunks = (chunks: string, where = 'true') => {
  const picked = (of: (at: string) => string, all: string) =>
    `if(is_plain, [${['least_at', 'greatest_at', 'count'].map(of).join(', ')}], ${all})`
  const field = (list: string) => picked((at) => `${list}[${at}]`, `arrayResize(${list}, count)`)
  const place = picked(
    (at) => `toUInt32(if(empty(places), first_place + ${at} - 1, places[${at}]))`,
    'if(empty(places), arrayMap(at -> toUInt32(first_place + at), range(count)), arrayResize(places, count))',
  )
  const ofChunk: Record<string, string> = {
    rows: 'sum(points)',
    step_low: 'min(low_step)',
    step_high: 'max(high_step)',
    time_low: 'min(low_time)',
    time_high: 'max(high_time)',
    has_nan: 'max(any_nan)',
    present_all: 'groupBitAnd(bits_all)',
    present_any: 'groupBitOr(bits_any)',
  }
  return `WITH ${withTime}, ${currentKey} AS current_key
     SELECT ${series}, ${aggregates.map((it) => `${ofChunk[it.name] ?? it.from} AS ${it.name}`).join(', ')}
     FROM (SELECT ${series}, request_hi, request_lo, received, bits AS value_bits, step_of AS step, timestamp_of AS timestamp,
         place_of AS place, present_of AS present, points, step_low AS low_step, step_high AS high_step, time_low AS low_time,
         time_high AS high_time, has_nan AS any_nan, present_all AS bits_all, present_any AS bits_any
       FROM ${chunks} ARRAY JOIN ${field('value_bits')} AS bits, ${field('steps')} AS step_of, ${field('timestamps')} AS timestamp_of,
         ${place} AS place_of, arrayResize(presents, if(is_plain, 3, count), present_all) AS present_of,
         arrayResize([toUInt64(count)], if(is_plain, 3, count)) AS points
       WHERE ${where})
     GROUP BY ${series}`
}

/**
 * A summary of the blocks that are sent with the query.
 *
 * @param select makes the query that reads them. Columns that it does not name are skipped: to read them would be a fifth of its cost.
 */
export function ofSentBlocks(table: Table, select: (blocks: string) => string): string {
  const isNamed = (name: string) => new RegExp(`\\b${name}\\b`).test(select(''))
  const columns = table.columns.filter((it) => isNamed(it.storedAs?.name ?? it.name))
  const stored = columns.map((it) => (it.storedAs ? `${it.storedAs.from} AS ${it.storedAs.name}` : it.name))
  const sent = columns.map((it) => `${it.name} ${it.type}`)
  return select(`(SELECT ${stored.join(', ')} FROM input('${sent.join(', ')}'))`)
}

export type SummaryPart = 'minimum' | 'maximum' | 'current'

/** The aggregates that merge the rows of a series into one, under the names that `describePoint` reads. */
const mergedCurrent = 'max(current) AS current_key, argMaxMerge(current_bits) AS current_value_bits'
export const mergedSummary = `min(minimum) AS minimum_key, max(maximum) AS maximum_key, ${mergedCurrent}`

/** The fields of a point of a summary, as expressions over `mergedSummary`. */
export function describePoint(part: SummaryPart): { value: string; step: string; time: string; hasStep: string } {
  const name = `${part}_key`
  const hasStep = `bitAnd(${word(name, 3)}, ${present.step}) != 0`
  if (part === 'current') {
    const value = 'reinterpretAsFloat64(current_value_bits)'
    return { value, time: toInt64(word(name, 0)), step: toInt64(word(name, 1)), hasStep }
  }
  const turned = (it: string) => (part === 'maximum' ? `bitNot(${it})` : it)
  return {
    value: toFloat(word(name, 0)),
    time: toInt64(turned(word(name, 1))),
    step: toInt64(turned(word(name, 2))),
    hasStep,
  }
}
