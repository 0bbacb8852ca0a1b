import type { Readable } from 'node:stream'
import { formsOf, type PointForms } from '../../point-forms.ts'
import type { ClickHouse } from '../connection.ts'
import { chunksTable, unfolded } from './chunks.ts'
import { doubleText } from './double-text.ts'
import { describePoint, mergedSummary, type SummaryPart, summaryTable } from './summaries/summary.ts'
import { pointsTable, present, storedValue, systemPointsTable } from './tables.ts'

/**
 * Reads of points. ClickHouse writes the JSON itself, so a long series streams through without being parsed here, and
 * 64-bit integers keep all their digits.
 *
 * `FINAL` collapses repeated deliveries. Summaries and buckets are not changed by repetitions, so they are read without it.
 */

/** How a caller refers to a series. */
export type SeriesName = {
  experimentId: bigint
  /** A metric name (in all its contexts), or a summary name `<context>_<metric>`. */
  name: string
  /** Only this context. */
  context: string | undefined
} & PointForms

type Run = { id: bigint } & PointForms

export const seriesOf = ({ id, hasRows, hasChunks }: Run, name: string, context?: string): SeriesName => ({
  experimentId: id,
  name,
  context,
  hasRows,
  hasChunks,
})

export const jsonSettings = `SETTINGS output_format_json_array_of_rows = 1, output_format_json_quote_64bit_integers = 0,
  output_format_json_escape_forward_slashes = 0`

const has = (bit: number) => `bitAnd(present, ${bit}) != 0`
export const timeOf = `if(${has(present.timestamp)}, timestamp, received)`
export const whenPresent = (bit: number, value: string) => `if(${has(bit)}, ${value}, NULL)`

export const pointObject = `metric AS metricName, ${doubleText('value')} AS metricValue, time AS timestamp,
  ${whenPresent(present.step, 'step')} AS step, ${whenPresent(present.epoch, 'epoch')} AS epoch,
  nullIf(context, '') AS runContext`

// By column, not by the aliases of the answer.
const pointOrder = 'ORDER BY p.context, p.step, p.time, p.request_hi, p.request_lo, p.place'

/** Every stored point of a series as a JSON array, ordered by context, step and time; for a series of any length. */
export function streamLongSeries(clickhouse: ClickHouse, series: SeriesName): Promise<Readable> {
  return clickhouse.stream(
    `SELECT ${pointObject} FROM (${selectPoints(clickhouse, series, { isFinal: true })}) AS p ${pointOrder}
     ${jsonSettings} FORMAT JSONEachRow`,
    seriesParams(series),
  )
}

/** Every stored point of an experiment, resource usage too, as a JSON array: ordered by metric, context, step and time. */
export function streamAllSeries(clickhouse: ClickHouse, run: Run): Promise<Readable> {
  const series = 'experiment_id = {experiment:UInt64}'
  const points = selectStoredPoints(clickhouse, { withSystem: true, forms: formsOf([run]), isFinal: true, series })
  return clickhouse.stream(
    `SELECT ${pointObject} FROM (${points}) AS p
     ORDER BY p.metric, p.context, p.step, p.time, p.request_hi, p.request_lo, p.place ${jsonSettings} FORMAT JSONEachRow`,
    { experiment: String(run.id) },
  )
}

/** Whether there is any point of a series. */
export async function hasSeries(clickhouse: ClickHouse, series: SeriesName): Promise<boolean> {
  const rows = await clickhouse.rows(
    `SELECT 1 FROM (${selectPoints(clickhouse, series, { isFinal: false })}) LIMIT 1`,
    seriesParams(series),
  )
  return rows.length > 0
}

export function seriesParams({ experimentId, name, context }: SeriesName) {
  const splits = splitName(name) ?? []
  return {
    experiment: String(experimentId),
    name,
    ...Object.fromEntries(
      splits.flatMap((it, at) => [
        [`metric${at}`, it.metric],
        [`context${at}`, it.context],
      ]),
    ),
    ...(context !== undefined && { context }),
  }
}

/**
 * What a summary name may be put together from, one for each of its underscores; undefined where there are many. They are found here
 * because ClickHouse takes longer to analyze an expression for them than to read 400 points.
 */
function splitName(name: string): { context: string; metric: string }[] | undefined {
  const places = [...name.matchAll(/_/g)]
  if (places.length > underscoresMax) return undefined
  return places.map((it) => ({ context: name.slice(0, it.index), metric: name.slice(it.index + 1) }))
}

const underscoresMax = 16

/** The whole name, or the part after one of its underscores. The primary key finds rows by them. */
const possibleMetricsAsSql = `arrayConcat([{name:String}], arrayMap(place -> substring({name:String}, place + 1),
  arrayFilter(place -> substring({name:String}, place, 1) = '_', range(1, length({name:String}) + 1))))`

/** Resource usage is in a table of its own, and is read by the same call under its `sys.` names. */
export const isOfSystem = ({ name }: SeriesName) => name.includes('sys.')

/** Of points and of summaries. */
export function matchesSeries({ name, context }: SeriesName): string {
  const inContext = context === undefined ? '' : ' AND context = {context:String}'
  return `experiment_id = {experiment:UInt64} AND ${isNamed(name)}${inContext}`
}

function isNamed(name: string): string {
  const splits = splitName(name)
  if (splits === undefined) {
    return `has(${possibleMetricsAsSql}, metric) AND (metric = {name:String} OR concat(context, '_', metric) = {name:String})`
  }
  const asSplit = splits.map((_, at) => `(metric = {metric${at}:String} AND context = {context${at}:String})`)
  return asSplit.length === 0 ? 'metric = {name:String}' : `(${['metric = {name:String}', ...asSplit].join(' OR ')})`
}

/** The rows of a series. */
export function selectPoints(clickhouse: ClickHouse, series: SeriesName, { isFinal }: { isFinal: boolean }): string {
  return selectStoredPoints(clickhouse, {
    withSystem: isOfSystem(series),
    forms: formsOf([series]),
    isFinal,
    series: matchesSeries(series),
  })
}

type StoredPoints = {
  withSystem: boolean
  forms: PointForms
  isFinal: boolean
  /** A condition on the experiment, the metric and the context. */
  series: string
  /** A further condition on each point. */
  points?: string
  /** What is true of every chunk that has such a point, of the columns that repetitions have in common. */
  chunks?: string
  /** Leaves these chunks out. Where it is true of a chunk, it is of one that was cut. */
  exceptChunks?: string | undefined
  columns?: string
}

/** The rows of all points that meet the conditions, with or without resource usage. */
export function selectStoredPoints(
  clickhouse: ClickHouse,
  {
    withSystem,
    forms,
    isFinal,
    series,
    points = 'true',
    chunks = 'true',
    exceptChunks = 'false',
    columns = '',
  }: StoredPoints,
): string {
  const { database } = clickhouse
  const selected = `SELECT ${columns}metric, context`
  const fields = `step, ${timeOf} AS time, epoch, present, request_hi, request_lo, place`
  const final = isFinal ? 'FINAL' : ''
  const ofRows = (table: string) => `${selected}, ${storedValue} AS value, ${fields}
    FROM ${database}.${table} ${final} WHERE ${series} AND ${points}`
  return [
    ...(forms.hasRows ? [ofRows(pointsTable.name)] : []),
    ...(forms.hasChunks
      ? [
          `${selected}, reinterpretAsFloat64(bits) AS value, ${fields} FROM ${database}.${chunksTable.name} ${final} ${unfolded}
           PREWHERE ${series} AND ${chunks} AND NOT (${exceptChunks}) WHERE ${points}`,
        ]
      : []),
    ...(withSystem ? [ofRows(systemPointsTable.name)] : []),
  ].join(' UNION ALL ')
}

const summarySuffix: Record<SummaryPart, string> = { minimum: 'Min', maximum: 'Max', current: 'Current' }

/** One entry per metric and context of an experiment as a JSON array. The cost does not grow with the points. */
export function streamSummary(clickhouse: ClickHouse, experimentId: bigint): Promise<Readable> {
  const parts = Object.keys(summarySuffix) as SummaryPart[]
  const values = parts.map((part) => `${describePoint(part).value} AS ${part}_value`)
  const fields = parts.flatMap((part) => {
    const suffix = summarySuffix[part]
    const { time, step, hasStep } = describePoint(part)
    return [
      `${doubleText(`${part}_value`, part)} AS value${suffix}`,
      `${time} AS timestamp${suffix}`,
      `nullIf(context, '') AS runContext${suffix}`,
      `if(${hasStep}, ${step}, NULL) AS step${suffix}`,
    ]
  })
  return clickhouse.stream(
    `WITH ${values.join(', ')}
     SELECT if(context = '', metric, concat(context, '_', metric)) AS name, ${fields.join(', ')}, false AS editable
     FROM (SELECT metric, context, ${mergedSummary} FROM ${clickhouse.database}.${summaryTable}
       WHERE experiment_id = {experiment:UInt64} GROUP BY metric, context)
     ORDER BY name ${jsonSettings} FORMAT JSONEachRow`,
    { experiment: String(experimentId) },
  )
}
