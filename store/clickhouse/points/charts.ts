import type { Readable } from 'node:stream'
import { formsOf, type PointForms } from '../../point-forms.ts'
import type { ClickHouse } from '../connection.ts'
import { doubleText } from './double-text.ts'
import { selectStoredPoints } from './reads.ts'
import { summaryTable } from './summaries/summary.ts'
import { systemPointsTable } from './tables.ts'

/** The series that a chart shows. */
export type Chart = {
  experiments: ({ id: bigint; startTimeMs: bigint } & PointForms)[]
  /** Each name is a metric (in all its contexts) or a summary name `<context>_<metric>`. */
  names: string[]
  /** True: only steps at which an experiment has a value for every name, at most `pointsMax` of them. False: every step. */
  commonSteps: boolean
  /** The maximum of points per series, by buckets that keep minimum and maximum; undefined for every point. */
  pointsMax: number | undefined
}

const rowJson = (array: string, value: string) =>
  `concat('[', arrayStringConcat(arrayMap(p -> ${value}, ${array}), ','), ']')`
const orNull = (bit: number, value: string) => `if(bitAnd(p.5, ${bit}) != 0, toString(${value}), 'null')`
const finiteOrQuoted = `if(isFinite(p.3), toString(p.3), concat('"', ${doubleText('p.3')}, '"'))`

/** Selects the rows of the names, and the name of each. */
export const matchesNames = `(metric IN (SELECT arrayJoin({names:Array(String)}))
  OR concat(context, '_', metric) IN (SELECT arrayJoin({names:Array(String)})))`
const namesOf = `arrayFilter(n -> n = metric OR n = concat(context, '_', metric), {names:Array(String)})`

/** The possible metric names: the whole name, or the part after one of its underscores. */
export const possibleMetrics = `SELECT substring(name, start) FROM (SELECT arrayJoin({names:Array(String)}) AS name)
  ARRAY JOIN arrayConcat([toUInt64(1)],
    arrayMap(i -> toUInt64(i + 1), arrayFilter(i -> substring(name, i, 1) = '_', range(1, length(name) + 1)))) AS start`

/**
 * The series of a chart, one per line: the experiment's id, a tab, and a JSON object. The series of an experiment are
 * adjacent, in the order of the names. ClickHouse writes the JSON, so 64-bit integers keep all their digits.
 */
export async function streamChart(clickhouse: ClickHouse, chart: Chart): Promise<Readable> {
  const { experiments, names, pointsMax, commonSteps } = chart
  const rows = selectRows(clickhouse, chart)
  const points =
    pointsMax === undefined
      ? `SELECT experiment_id, metric, context, groupArray(${point}) AS points FROM (${rows})
         GROUP BY experiment_id, metric, context`
      : selectThinned(rows)
  return await clickhouse.stream(
    `WITH arraySort(p -> (p.1, p.2, p.6, p.7, p.8), points) AS sorted,
       transform(experiment_id, {ids:Array(UInt64)}, {starts:Array(Int64)}, toInt64(0)) AS start
     SELECT toString(experiment_id), concat('{"metricName":', toJSONString(name),
       ',"runContext":', if(context = '', 'null', toJSONString(toString(context))),
       ',"values":', ${rowJson('sorted', finiteOrQuoted)}, ',"steps":', ${rowJson('sorted', orNull(1, 'p.1'))},
       ',"epochs":', ${rowJson('sorted', orNull(2, 'p.4'))}, ',"timestamps":', ${rowJson('sorted', 'toString(p.2)')},
       ',"durations":', ${rowJson('sorted', 'toString(p.2 - start)')}, '}')
     FROM (${points}) ARRAY JOIN ${namesOf} AS name
     ORDER BY experiment_id, indexOf({names:Array(String)}, name), metric, context FORMAT TSVRaw`,
    {
      ids: experiments.map((it) => it.id),
      starts: experiments.map((it) => it.startTimeMs),
      names,
      ...(pointsMax !== undefined && { pointsMax }),
      ...(commonSteps && { namesCount: names.length }),
    },
  )
}

/** A tuple: step, time, value, epoch, present, and the identity, which orders equal points. */
const point = '(step, time, value, epoch, present, request_hi, request_lo, place)'

function selectRows(clickhouse: ClickHouse, { experiments, names, commonSteps, pointsMax }: Chart): string {
  const rows = selectStoredPoints(clickhouse, {
    withSystem: names.some((it) => it.includes('sys.')),
    forms: formsOf(experiments),
    // Repeated rows do not change minimum and maximum; `arrayDistinct` drops the others.
    isFinal: pointsMax === undefined,
    columns: 'experiment_id, ',
    series: `experiment_id IN {ids:Array(UInt64)} AND metric IN (${possibleMetrics}) AND ${matchesNames}`,
  })
  if (!commonSteps) return rows
  const common = `SELECT experiment_id, step, row_number() OVER (PARTITION BY experiment_id ORDER BY step) AS number,
      count() OVER (PARTITION BY experiment_id) AS steps
    FROM (SELECT experiment_id, step FROM (${rows}) WHERE bitAnd(present, 1) != 0
      GROUP BY experiment_id, step HAVING length(groupUniqArrayArray(${namesOf})) = {namesCount:UInt32})`
  const shown =
    pointsMax === undefined ? 'true' : '(number - 1) % intDiv(steps + {pointsMax:UInt32} - 1, {pointsMax:UInt32}) = 0'
  return `SELECT * FROM (${rows})
    WHERE bitAnd(present, 1) != 0 AND (experiment_id, step) IN (SELECT experiment_id, step FROM (${common}) WHERE ${shown})`
}

/**
 * Like `streamThinnedSeries`, for many series at once: divides the steps of each (or its times, if it has no steps) into
 * buckets of equal width, and keeps the minimum, the maximum and the first NaN of each bucket. A short series is returned
 * whole.
 */
function selectThinned(rows: string): string {
  const series = 'experiment_id, metric, context'
  return `WITH reinterpretAsUInt64(if(byTime, time, step) - low) AS distance, ${point} AS kept
    SELECT ${series}, arrayFlatten(groupArray(points)) AS points FROM (
      SELECT ${series}, arrayDistinct(if(any(isShort), groupArrayIf(kept, isShort), arrayConcat(
          if(countIf(NOT isNaN(value)) > 0,
            [argMinIf(kept, value, NOT isNaN(value)), argMaxIf(kept, value, NOT isNaN(value))], []),
          if(countIf(isNaN(value)) > 0, [argMinIf(kept, distance, isNaN(value))], [])))) AS points
      FROM (${rows}) AS r INNER JOIN (
        SELECT ${series}, count() <= {pointsMax:UInt32} AS isShort, min(step) = max(step) AS byTime,
          if(byTime, min(time), min(step)) AS low, if(byTime, max(time), max(step)) AS high,
          intDiv({pointsMax:UInt32}, if(countIf(isNaN(value)) > 0, 3, 2)) AS buckets,
          intDiv(reinterpretAsUInt64(high - low), buckets) + 1 AS width
        FROM (${rows}) GROUP BY ${series}) AS extent USING (${series})
      GROUP BY ${series}, if(isShort, 0, least(intDiv(distance, width), buckets - 1)))
    GROUP BY ${series}`
}

/** Summaries that tell of so many times the points are believed: not all of that can be repeated deliveries. */
const repeatsMax = 4

/**
 * Counts the points of all series of a chart, by their summaries, at a cost that does not grow with them. Those count repeated
 * deliveries again: where it would be these that exceed the limit, the points are counted.
 */
export async function countChartPoints(clickhouse: ClickHouse, chart: Chart, pointsMax: number): Promise<number> {
  const { experiments, names } = chart
  const ofSystem = names.some((it) => it.includes('sys.'))
  const tables = [
    `SELECT sum(rows) AS points FROM ${clickhouse.database}.${summaryTable}
     WHERE experiment_id IN {ids:Array(UInt64)} AND metric IN (${possibleMetrics}) AND ${matchesNames}`,
    ...(ofSystem
      ? [
          `SELECT count() AS points FROM ${clickhouse.database}.${systemPointsTable.name}
           WHERE experiment_id IN {ids:Array(UInt64)} AND metric IN (${possibleMetrics}) AND ${matchesNames}`,
        ]
      : []),
  ]
  const params = { ids: experiments.map((it) => it.id), names }
  const [bound] = await clickhouse.rows<{ total: string }>(
    `SELECT sum(points) AS total FROM (${tables.join(' UNION ALL ')})`,
    params,
  )
  const total = Number(bound?.total ?? 0)
  if (total <= pointsMax || total > pointsMax * repeatsMax) return total
  const [exact] = await clickhouse.rows<{ total: string }>(
    `SELECT count() AS total FROM (${selectRows(clickhouse, { ...chart, commonSteps: false, pointsMax: undefined })})`,
    params,
  )
  return Number(exact?.total ?? 0)
}
