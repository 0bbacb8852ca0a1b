import { z } from 'zod'
import { int64, integerBetween, object, optional, text } from '../../http/body/fields.ts'
import { type Route, route } from '../../http/route.ts'
import type { ClickHouse } from '../../store/clickhouse/connection.ts'
import { readHistory, readStepsOfHistory } from '../../store/clickhouse/points/history.ts'
import { seriesOf } from '../../store/clickhouse/points/reads.ts'
import { metricAnswer, toMetric } from './answers.ts'
import type { AwaitStored } from './await-stored.ts'
import { texts } from './experiments.ts'
import { parseOffset, toOffsetToken } from './filter.ts'
import type { ExperimentFinder } from './find.ts'
import { common, mlflow } from './workspace.ts'

const pointsMax = 100_000
const stepsDefault = 2_500
const stepsMax = 25_000
const metricKey = text(2_001, 1)

type Deps = { clickhouse: ClickHouse; find: ExperimentFinder; awaitStored: AwaitStored }

/** Reads of the points of metrics. */
export function createMlflowMetricRoutes({ clickhouse, find, awaitStored }: Deps): Route[] {
  return [
    route({
      ...common,
      method: 'GET',
      path: `${mlflow}/metrics/get-history`,
      summary: 'Reads every point of a metric by time, in pages of 100,000 at most.',
      query: object({
        run_id: optional(text(200)),
        run_uuid: optional(text(200)),
        metric_key: metricKey,
        max_results: optional(integerBetween(1, 1_000_000)),
        page_token: optional(text(1_000)),
      }),
      answer: z.object({ metrics: z.array(metricAnswer), next_page_token: z.string().optional() }),
      async handle({ query, ...call }) {
        const run = await find.run(call, query.run_id || query.run_uuid)
        const limit = Math.min(query.max_results ?? pointsMax, pointsMax)
        const offset = parseOffset(query.page_token)
        await awaitStored()
        const series = seriesOf(run, query.metric_key)
        const points = await readHistory(clickhouse, series, { limit: limit + 1, offset })
        return {
          metrics: points.slice(0, limit).map((it) => toMetric(query.metric_key, it)),
          ...(points.length > limit && { next_page_token: toOffsetToken(offset + limit) }),
        }
      },
    }),

    route({
      ...common,
      method: 'GET',
      path: `${mlflow}/metrics/get-history-bulk-interval`,
      summary:
        'Reads the points of a metric in several runs, for a chart: of more than `max_results` steps every so-manieth.',
      query: object({
        run_ids: texts,
        metric_key: metricKey,
        start_step: optional(int64),
        end_step: optional(int64),
        max_results: optional(integerBetween(1, stepsMax)),
      }),
      answer: z.object({ metrics: z.array(metricAnswer.extend({ run_id: z.string() })) }),
      async handle({ query, ...call }) {
        const { run_ids: runIds = [], max_results: max = stepsDefault } = query
        const runs = await Promise.all(runIds.map((id) => find.run(call, id)))
        await awaitStored()
        const range = {
          fromStep: BigInt(query.start_step ?? -(2n ** 63n)),
          toStep: BigInt(query.end_step ?? 2n ** 63n - 1n),
          stepsMax: max,
        }
        const metrics = []
        for (const run of runs) {
          const series = seriesOf(run, query.metric_key)
          const points = await readStepsOfHistory(clickhouse, series, range)
          for (const it of points) metrics.push({ ...toMetric(query.metric_key, it), run_id: run.key })
        }
        return { metrics }
      },
    }),
  ]
}
