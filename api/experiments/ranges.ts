import { Readable } from 'node:stream'
import { z } from 'zod'
import { experimentKey, flag, list, object, optional, text } from '../../http/body/fields.ts'
import { HttpError } from '../../http/errors.ts'
import { type Route, route } from '../../http/route.ts'
import { maxBigInt, minBigInt } from '../../runtime/bigint.ts'
import type { ClickHouse } from '../../store/clickhouse/connection.ts'
import {
  type Bound,
  type Extent,
  findSeries,
  type Range,
  type RangeSeries,
  type ReadRange,
} from '../../store/clickhouse/points/range-rows.ts'
import { findExtent, readRanges } from '../../store/clickhouse/points/ranges.ts'
import type { Queries } from '../../store/postgres/database.ts'
import { listChartExperiments } from '../../store/postgres/experiments/chart-experiments.ts'
import type { Tenants } from '../../throttle/tenants.ts'
import { toViewer } from '../access.ts'
import { type LivePosition, toEventId } from '../live/position.ts'

const seriesMax = 2_000
const pointsMax = 5_000
const pointsDefault = 500
/** Some sixty megabytes of an answer. */
const bucketsMax = 1_000_000
/** Points of another metric as x are joined in memory. */
const joinedPointsMax = 5_000_000
/** The names are part of the URL of the query to ClickHouse, which may have a megabyte. */
const namesBytesMax = 100_000

const metricName = text(2_001, 1).describe('the metric’s name, or its summary name `<context>_<name>`')
const context = optional(text(1_000)).describe('absent: every context, each as a series of its own')

const bound = optional(
  z
    .union([z.number(), z.bigint()], 'expected a number')
    .refine((it) => typeof it === 'bigint' || Number.isFinite(it), 'must be finite')
    .meta({ type: 'number' }),
)

const axes = ['step', 'time', 'relative', 'epoch'] as const
const axis = z
  .union([z.enum(axes), object({ metricName, context: optional(text(1_000)) })], {
    error: `expected ${axes.join(', ')} or {metricName, context}`,
  })
  .meta({ type: ['string', 'object'] })

const numbers = z.array(z.number())
const numbersOrNull = z.array(z.number().nullable())

const rangesAnswer = z.object({
  position: z
    .string()
    .nullable()
    .describe('where /experiments/stream goes on without a gap; null while the service catches up after an outage'),
  from: z.number().nullable().describe('where the first bucket begins; null when there is no point'),
  to: z.number().nullable(),
  series: z.array(
    z.object({
      experimentKey: z.string(),
      metricName: z.string(),
      context: z.string().nullable(),
      bucketed: z.boolean().describe('false: every point, as `x` and `last` only'),
      total: z.int().describe('points within from and to'),
      withoutX: z.int().describe('points of the series without a value of x'),
      x: numbers.describe('of the first point of each bucket'),
      xTo: numbers.optional().describe('of the last point of each bucket'),
      min: numbersOrNull.optional(),
      max: numbersOrNull.optional(),
      first: numbersOrNull.optional(),
      last: numbersOrNull.describe('null: not finite'),
      mean: numbersOrNull.optional().describe('of the finite values'),
      count: numbers.optional(),
      nonFinite: numbers.optional().describe('how many values are NaN or infinite'),
    }),
  ),
})

type Deps = {
  database: Queries
  clickhouse: ClickHouse
  tenants: Pick<Tenants, 'note'>
  /** The position until which everything accepted is stored; undefined while the queue is behind. */
  findPosition(): Promise<LivePosition | undefined>
}

/** Reads many series over a range of x, thinned to what a chart can show. */
export function createRangeRoutes({ database, clickhouse, tenants, findPosition }: Deps): Route[] {
  return [
    route({
      method: 'POST',
      path: '/experiments/series',
      charge: 'none',
      permission: 'reader',
      topic: 'Experiments: reading the stream',
      summary:
        'Reads many series over a range of x, for charts. The range is divided into `points` buckets, the same for all ' +
        'series. Every point counts in its bucket: none is left out. A series with no more points than buckets is read ' +
        'point by point. Series without points in the range, and of experiments that this key may not see, are left out.',
      body: object({
        series: list(object({ experimentKey, metricName, context }), seriesMax),
        x: optional(axis).describe(
          'step (the default), time (ms), relative (seconds since the start of the experiment), epoch, or the value of ' +
            'another metric at the same step',
        ),
        from: bound.describe('inclusive, in units of x; absent: from the first point'),
        to: bound.describe('inclusive; absent: to the last point'),
        points: optional(
          z
            .int('expected an integer')
            .min(1, 'must be 1 or more')
            .max(pointsMax, `must be ${pointsMax} or fewer`)
            .describe(`buckets; default ${pointsDefault}`),
        ),
        live: optional(flag).describe(
          'true: exactly what was accepted until `position`, a second or a few ago, so that a stream from there repeats ' +
            'nothing; otherwise everything that is stored',
        ),
      }),
      answer: rangesAnswer,
      shape: 'plain',
      async handle({ body, caller }) {
        const { x = 'step', points = pointsDefault, live = false } = body
        refuseTooMany(body.series, points)
        const position = live ? await findPosition() : undefined
        const keys = [...new Set(body.series.map((it) => it.experimentKey))]
        const experiments = await listChartExperiments(database, toViewer(caller), keys, [])
        if (experiments[0]) tenants.note(experiments[0].workspaceName)
        const otherMetric = typeof x === 'object' ? { metric: x.metricName, context: x.context } : undefined
        const range: Range = {
          x: otherMetric ?? (x as (typeof axes)[number]),
          ...toBounds(body, x),
          acceptedUntilMs: position ? Number(position.points.receivedMs) - 1 : undefined,
        }
        const names = [...new Set(body.series.map((it) => it.metricName))]
        const found =
          experiments.length === 0
            ? []
            : await findSeries(clickhouse, experiments, [...names, ...(otherMetric ? [otherMetric.metric] : [])])
        const keyOf = new Map(experiments.map((it) => [it.id, it.key]))
        const wanted = choose(body.series, found, keyOf)
        if (otherMetric) refuseTooManyJoined([...wanted, ...found.filter((it) => isNamed(it, otherMetric))])
        const extent = await toExtent(wanted, range)
        const read = extent ? await readRanges(clickhouse, wanted, range, { extent, points }) : []
        const order = new Map(wanted.map((it, at) => [it, at]))
        read.sort((a, b) => (order.get(a.series) ?? 0) - (order.get(b.series) ?? 0))
        return Readable.from(writeRanges(read, { position, extent, range, keyOf }), { objectMode: false })
      },
    }),
  ]

  async function toExtent(series: RangeSeries[], range: Range): Promise<Extent | undefined> {
    const { from, to } = range
    if (series.length === 0) return undefined
    if (from !== undefined && to !== undefined) return from <= to ? { from, to } : undefined
    const whole = await findExtent(clickhouse, series, range)
    const extent = whole && { from: from ?? whole.from, to: to ?? whole.to }
    return extent && extent.from <= extent.to ? extent : undefined
  }
}

type Asked = { experimentKey: string; metricName: string; context?: string | undefined }

const isNamed = (it: RangeSeries, { metric, context }: { metric: string; context: string | undefined }) =>
  (it.metric === metric || `${it.context}_${it.metric}` === metric) && (context === undefined || it.context === context)

/** The series that were asked for, in that order, each once. */
function choose(asked: Asked[], found: RangeSeries[], keyOf: Map<bigint, string>): RangeSeries[] {
  const byKey = Map.groupBy(found, (it) => keyOf.get(it.experimentId))
  const chosen = asked.flatMap(({ experimentKey: key, metricName: metric, context }) =>
    (byKey.get(key) ?? []).filter((it) => isNamed(it, { metric, context })),
  )
  const wanted = [...new Set(chosen)]
  if (wanted.length <= seriesMax) return wanted
  throw new HttpError('chartTooLarge', `series: with their contexts there are ${wanted.length}; ask for ${seriesMax}`)
}

const int64 = { least: -(2n ** 63n), greatest: 2n ** 63n - 1n }

/** Whole numbers for all but the values of a metric; relative times in ms. */
function toBounds({ from, to }: { from?: Bound | undefined; to?: Bound | undefined }, x: unknown) {
  if (typeof x === 'object') {
    return { from: from === undefined ? from : Number(from), to: to === undefined ? to : Number(to) }
  }
  const unit = x === 'relative' ? 1_000 : 1
  const toWhole = (bound: Bound | undefined, round: (it: number) => number) => {
    if (bound === undefined) return undefined
    const whole = typeof bound === 'bigint' ? bound * BigInt(unit) : BigInt(round(bound * unit))
    return maxBigInt(int64.least, minBigInt(int64.greatest, whole))
  }
  return { from: toWhole(from, Math.ceil), to: toWhole(to, Math.floor) }
}

function refuseTooMany(series: Asked[], points: number) {
  if (series.length * points > bucketsMax) {
    throw new HttpError(
      'chartTooLarge',
      `points: times series there are ${series.length * points}; ask for ${bucketsMax} or fewer`,
    )
  }
  const names = new Set(series.map((it) => it.metricName))
  const bytes = [...names].reduce((sum, it) => sum + Buffer.byteLength(it), 0)
  if (bytes > namesBytesMax) {
    throw new HttpError('chartTooLarge', `series: their names must have ${namesBytesMax} bytes together`)
  }
}

function refuseTooManyJoined(series: RangeSeries[]) {
  const points = series.reduce((sum, it) => sum + it.rows, 0)
  if (points <= joinedPointsMax) return
  throw new HttpError(
    'chartTooLarge',
    `x: the series and this metric have ${points} points together, of which ${joinedPointsMax} can be joined; ask for fewer`,
  )
}

type Told = {
  position: LivePosition | undefined
  extent: Extent | undefined
  range: Range
  keyOf: Map<bigint, string>
}

/** Writes the answer around the columns, which are JSON already. */
function* writeRanges(read: ReadRange[], { position, extent, range, keyOf }: Told): Generator<string> {
  const toNumber = (it: Bound | undefined) =>
    it === undefined ? 'null' : range.x === 'relative' ? String(Number(it) / 1_000) : String(it)
  yield `{"position":${JSON.stringify(position ? toEventId(position) : null)},"from":${toNumber(extent?.from)},` +
    `"to":${toNumber(extent?.to)},"series":[`
  let isFirst = true
  for (const { series, isBucketed, total, withoutX, columns } of read) {
    if (total === 0 && withoutX === 0) continue
    const head = {
      experimentKey: keyOf.get(series.experimentId),
      metricName: series.metric,
      context: series.context || null,
      bucketed: isBucketed,
      total,
      withoutX,
    }
    const written = Object.entries(columns).map(([name, json]) => `"${name}":${json}`)
    yield `${isFirst ? '' : ','}${JSON.stringify(head).slice(0, -1)},${written.join(',')}}`
    isFirst = false
  }
  yield ']}'
}
