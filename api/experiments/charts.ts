import { Readable } from 'node:stream'
import { z } from 'zod'
import { experimentKey, flag, list, object, optional, text } from '../../http/body/fields.ts'
import { HttpError } from '../../http/errors.ts'
import { type Route, route } from '../../http/route.ts'
import type { ClickHouse } from '../../store/clickhouse/connection.ts'
import { type Chart, countChartPoints, streamChart } from '../../store/clickhouse/points/charts.ts'
import type { Database } from '../../store/postgres/database.ts'
import { type ChartExperiment, listChartExperiments } from '../../store/postgres/experiments/chart-experiments.ts'
import type { Tenants } from '../../throttle/tenants.ts'
import { toViewer } from '../access.ts'

const experimentsMax = 1_000
const namesMax = 100
const seriesMax = 5_000
/** Some sixty megabytes of an answer. */
const fullPointsMax = 1_000_000
const thinnedPointsMax = 500
/** The names are part of the URL of the query to ClickHouse, which may have a megabyte. */
const namesBytesMax = 100_000

const names = optional(list(text(2_001, 1), namesMax))

const seriesAnswer = z.object({
  metricName: z.string().describe('the name in the request'),
  runContext: z.string().nullable(),
  values: z
    .array(
      z
        .number()
        .or(z.string())
        .meta({ type: ['number', 'string'] }),
    )
    .describe('NaN and the infinities as strings'),
  steps: z.array(z.int().nullable()),
  epochs: z.array(z.int().nullable()),
  timestamps: z.array(z.int()).describe('ms since the Unix epoch'),
  durations: z.array(z.int()).describe('ms since the start of the experiment'),
})

const chartAnswer = z.object({
  experiments: z.record(
    z.string(),
    z.object({
      experimentKey: z.string(),
      params: z.record(z.string(), z.string()),
      metrics: z.array(seriesAnswer),
      empty: z.boolean().describe('true if the answer has no series'),
    }),
  ),
  empty: z.boolean().describe('true when there is nothing to show'),
})

type Deps = { database: Database; clickhouse: ClickHouse; tenants: Pick<Tenants, 'note'> }

/** Reads metrics and parameters of many experiments. */
export function createChartRoutes({ database, clickhouse, tenants }: Deps): Route[] {
  return [
    route({
      method: 'POST',
      path: '/experiments/multi-metric-chart',
      charge: 'none',
      permission: 'reader',
      topic: 'Experiments: reading the stream',
      summary:
        'Reads metrics and parameters of many experiments at once. The answer omits experiments that this key may not see ' +
        'and experiments without any of the values.',
      body: object({
        targetedExperiments: list(experimentKey, experimentsMax),
        metrics: names.describe('names of metrics, or their summary names `<context>_<name>`'),
        params: names.describe('names of parameters'),
        independentMetrics: optional(flag).describe(
          'false: only the steps at which an experiment has a value of every metric; otherwise each metric has its own steps',
        ),
        fetchFull: optional(flag).describe(
          `true: every point, up to ${fullPointsMax} in total; otherwise at most ${thinnedPointsMax} per metric, by ` +
            'buckets that keep minimum and maximum',
        ),
      }),
      answer: chartAnswer,
      shape: 'plain',
      async handle({ body, caller }) {
        const metricNames = [...new Set(body.metrics ?? [])]
        const parameterNames = [...new Set(body.params ?? [])]
        const keys = [...new Set(body.targetedExperiments)]
        refuseTooMany(keys, metricNames)
        const experiments = await listChartExperiments(database, toViewer(caller), keys, parameterNames)
        if (experiments[0]) tenants.note(experiments[0].workspaceName)
        const chart: Chart = {
          experiments,
          names: metricNames,
          commonSteps: body.independentMetrics === false,
          pointsMax: body.fetchFull ? undefined : thinnedPointsMax,
        }
        const hasSeries = experiments.length > 0 && metricNames.length > 0
        if (hasSeries && body.fetchFull) refuseTooManyPoints(await countChartPoints(clickhouse, chart, fullPointsMax))
        const series = hasSeries ? await streamChart(clickhouse, chart) : Readable.from([])
        return Readable.from(writeChart(experiments, series), { objectMode: false })
      },
    }),
  ]
}

function refuseTooMany(keys: string[], metricNames: string[]) {
  const series = keys.length * metricNames.length
  if (series > seriesMax) {
    throw new HttpError(
      'chartTooLarge',
      `metrics: times targetedExperiments there are ${series}; ask for ${seriesMax} or fewer`,
    )
  }
  const bytes = metricNames.reduce((sum, it) => sum + Buffer.byteLength(it), 0)
  if (bytes > namesBytesMax) throw new HttpError('chartTooLarge', `metrics: must have ${namesBytesMax} bytes together`)
}

function refuseTooManyPoints(points: number) {
  if (points <= fullPointsMax) return
  throw new HttpError(
    'chartTooLarge',
    `fetchFull: the metrics have ${points} points together, of which ${fullPointsMax} can be read at once; ask for fewer, ` +
      'or read each with /experiment/metrics/get-metric',
  )
}

/** Writes the answer while the series arrive, grouped by experiment. */
async function* writeChart(experiments: ChartExperiment[], series: Readable): AsyncGenerator<Buffer | string> {
  const waiting = new Map(experiments.map((it) => [String(it.id), it]))
  let written = 0
  let isOpen = false
  const begin = (it: ChartExperiment, isEmpty: boolean) => {
    waiting.delete(String(it.id))
    const head = `"experimentKey":${JSON.stringify(it.key)},"params":${JSON.stringify(it.parameters)},"empty":${isEmpty}`
    return `${written++ === 0 ? '' : ','}${JSON.stringify(it.key)}:{${head},"metrics":[`
  }
  yield '{"experiments":{'
  for await (const piece of splitLines(series)) {
    if (typeof piece === 'string') {
      const experiment = waiting.get(piece)
      if (!experiment) yield ','
      else yield `${isOpen ? ']}' : ''}${begin(experiment, false)}`
      isOpen = true
    } else yield piece
  }
  if (isOpen) yield ']}'
  for (const it of waiting.values()) {
    if (Object.keys(it.parameters).length > 0) yield `${begin(it, true)}]}`
  }
  yield `},"empty":${written === 0}}`
}

const tab = 9
const newline = 10

/** Splits lines of an id, a tab and a text: yields the id as a string, then the text as bytes while it arrives. */
async function* splitLines(lines: Readable): AsyncGenerator<string | Buffer> {
  let id = ''
  let inText = false
  for await (const chunk of lines as AsyncIterable<Buffer>) {
    for (let from = 0; from < chunk.length; inText = !inText) {
      const end = chunk.indexOf(inText ? newline : tab, from)
      const piece = chunk.subarray(from, end === -1 ? chunk.length : end)
      if (inText) yield piece
      else id += piece.toString('latin1')
      if (end === -1) break
      if (!inText) {
        yield id
        id = ''
      }
      from = end + 1
    }
  }
}
