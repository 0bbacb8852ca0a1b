import { z } from 'zod'
import { experimentKey, integerBetween, object, optional, text } from '../../http/body/fields.ts'
import { wrapJson } from '../../http/body/json-stream.ts'
import { decodeAgain } from '../../http/encoded-twice.ts'
import { type Route, route } from '../../http/route.ts'
import type { ClickHouse } from '../../store/clickhouse/connection.ts'
import { hasSeries, seriesOf, streamAllSeries, streamSummary } from '../../store/clickhouse/points/reads.ts'
import { readSeries } from '../../store/clickhouse/points/short-series.ts'
import { streamThinnedSeries } from '../../store/clickhouse/points/thinned-series.ts'
import type { Access } from '../access.ts'
import { valuesAnswer } from './logged-values.ts'

const topic = 'Experiments: reading the stream'

const pointsMaxLeast = 10
const pointsMaxMost = 100_000

const pointAnswer = z.object({
  metricName: z.string(),
  metricValue: z
    .string()
    .describe(
      'the shortest digits that are the same float, with at least one after the point: 123.0, 3.4359738368E10, NaN',
    ),
  timestamp: z.int().describe('ms since the Unix epoch; when the point was accepted, if the client gave none'),
  step: z.int().nullable(),
  epoch: z.int().nullable(),
  runContext: z.string().nullable(),
})

type Deps = { clickhouse: ClickHouse; access: Access }

export function createStreamReadRoutes({ clickhouse, access }: Deps): Route[] {
  return [
    route({
      method: 'GET',
      path: '/experiment/metrics/summary',
      permission: 'reader',
      topic,
      summary: 'Reads the minimum, maximum and current value of every metric.',
      query: object({ experimentKey }),
      answer: valuesAnswer,
      shape: 'plain',
      async handle({ query, caller }) {
        const experiment = await access.experiment(caller, query.experimentKey)
        return wrapJson('{"values":', await streamSummary(clickhouse, experiment.id), '}')
      },
    }),

    route({
      method: 'GET',
      path: '/experiment/metrics/get-metric',
      permission: 'reader',
      topic,
      summary:
        'Reads every stored point of a metric, ordered by step. With maxPoints it reads buckets, with the minimum and ' +
        'maximum of each.',
      query: object({
        experimentKey,
        metricName: text(2_001, 1).describe('the metric’s name, or its summary name `<context>_<name>`'),
        context: optional(text(1_000)),
        maxPoints: optional(integerBetween(pointsMaxLeast, pointsMaxMost)),
      }),
      answer: z.object({ metrics: z.array(pointAnswer) }),
      shape: 'plain',
      async handle({ query, caller }) {
        const experiment = await access.experiment(caller, query.experimentKey)
        const asSent = seriesOf(experiment, query.metricName, query.context)
        const decoded = { ...asSent, name: decodeAgain(query.metricName) }
        const series = decoded.name === asSent.name || (await hasSeries(clickhouse, asSent)) ? asSent : decoded
        const points =
          query.maxPoints === undefined
            ? await readSeries(clickhouse, series)
            : await streamThinnedSeries(clickhouse, series, query.maxPoints)
        return wrapJson('{"metrics":', points, '}')
      },
    }),

    route({
      method: 'GET',
      path: '/experiment/metrics/get-all',
      permission: 'reader',
      topic,
      summary:
        'Reads every stored point of every metric, ordered by metric, context and step. Resource usage is `sys.*`.',
      query: object({ experimentKey }),
      answer: z.object({ metrics: z.array(pointAnswer) }),
      shape: 'plain',
      async handle({ query, caller }) {
        const experiment = await access.experiment(caller, query.experimentKey)
        return wrapJson('{"metrics":', await streamAllSeries(clickhouse, experiment), '}')
      },
    }),
  ]
}
