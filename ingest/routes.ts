import type { z } from 'zod'
import { fastRoute, type Route, type RouteDescription, toEnvelope } from '../http/route.ts'
import { mapMaybeAsync } from '../runtime/map-maybe-async.ts'
import type { chunkBlocks } from '../store/clickhouse/points/chunks.ts'
import type { outputLinesTable, pointsTable, systemPointsTable } from '../store/clickhouse/points/tables.ts'
import type { Database } from '../store/postgres/database.ts'
import type { WritableExperiment } from '../store/postgres/experiments/experiments.ts'
import type { Committer } from './committer.ts'
import {
  cpuMetrics,
  gpuMetrics,
  loadMetrics,
  loggedBatch,
  metric,
  metricsBatch,
  output,
  ramMetrics,
} from './descriptions.ts'
import type { Origin } from './identity.ts'
import type { MlflowPoints } from './mlflow/points.ts'
import { createMlflowWriteRoutes } from './mlflow/routes.ts'
import { identifyOutput, withoutUptimes } from './output/logging-client.ts'
import { pushLines } from './output/rows.ts'
import { type Batch, countPoints, readBatch, readEnvelope } from './points/batch.ts'
import { isChunked, pushChunks } from './points/chunks.ts'
import { createFormNotes } from './points/form-notes.ts'
import { type LoggedPoints, ownIdentity, readLoggedBatch, toWrongPoints } from './points/logged-batch.ts'
import { readMetric } from './points/metric.ts'
import { type PointRows, pushPoints } from './points/rows.ts'
import type { Dropped, Limited } from './points/series-limits.ts'
import { countKept, pushRows } from './points/series-points.ts'
import {
  type Reading,
  type SystemBody,
  toCpuReading,
  toGpuReading,
  toLoadReading,
  toRamReading,
  toSystemPoints,
} from './points/system-metrics.ts'
import { createWriteHandlers, type WriteDeps } from './write.ts'

type Deps = WriteDeps & {
  database: Database
  /** Removes points over the limit on metric names or on points per metric from the lists. */
  limitSeries(experiment: WritableExperiment, rows: Limited): Dropped | Promise<Dropped>
  committers: {
    metrics: Committer<typeof pointsTable>
    metricChunks: Committer<typeof chunkBlocks>
    systemMetrics: Committer<typeof systemPointsTable>
    output: Committer<typeof outputLinesTable>
  }
}

const saved = JSON.stringify({ msg: 'Saved', code: 200, data: null, sdk_error_code: 0 })

/** The writes to experiments. Each gives its own parts to the five steps in `write.ts`. */
export function createIngestRoutes({ database, limitSeries, committers, ...deps }: Deps): Route[] {
  const toHandler = createWriteHandlers(deps)

  /** Drops the points over a limit and counts them for the experiment's metadata. */
  function dropOverLimits<Rows extends Limited>(experiment: WritableExperiment, rows: Rows) {
    return mapMaybeAsync(limitSeries(experiment, rows), ({ overNames, overPoints }) => {
      const { id } = experiment
      if (overNames > 0) deps.counters.throttled('metrics', id, overNames, 'metric points: too many metric names')
      if (overPoints > 0) deps.counters.throttled('metrics', id, overPoints, 'metric points: too many of one metric')
      return { rows, throttled: overNames + overPoints }
    })
  }

  const commitPoints = (committer: Committer<typeof pointsTable>, origin: Origin, { points, rowIndexes }: PointRows) =>
    committer.commit(origin.receivedMs, points.length, (block) => pushPoints(block, origin, points, rowIndexes))

  const noteForm = createFormNotes(database)

  const commitMetrics = (origin: Origin, rows: PointRows, experiment: WritableExperiment) => {
    const commit = () => commitPoints(committers.metrics, origin, rows)
    return experiment.hasRows ? commit() : noteForm(experiment, 'hasRows').then(commit)
  }

  /** In the form that the request has by itself, so that a repetition has the same. */
  async function commitBatch(origin: Origin, batch: Batch, experiment: WritableExperiment) {
    const { series } = batch
    const count = countKept(series)
    if (!experiment.takesChunks || !isChunked(batch)) {
      if (!experiment.hasRows) await noteForm(experiment, 'hasRows')
      return await committers.metrics.commit(origin.receivedMs, count, (block) => pushRows(block, origin, series))
    }
    if (!experiment.hasChunks) await noteForm(experiment, 'hasChunks')
    await committers.metricChunks.commit(origin.receivedMs, count, (block) => pushChunks(block, origin, series))
  }

  const systemRoute = <Fields extends z.ZodType<SystemBody>>(
    description: RouteDescription & { permission: 'caller'; body: Fields },
    call: string,
    toReading: (body: z.output<Fields>) => Reading,
  ): Route =>
    fastRoute({
      ...description,
      handle: toHandler({
        type: 'systemMetrics',
        call,
        readEnvelope: (body: z.output<Fields>) => ({
          experimentKey: body.experimentKey,
          points: toSystemPoints(toReading(body), body),
        }),
        countClaimed: ({ points }) => points.length,
        checkRows: ({ points }) => ({ points, rowIndexes: [...points.keys()] }),
        countAccepted: ({ points }) => points.length,
        commit: (origin, rows) => commitPoints(committers.systemMetrics, origin, rows),
        toAnswer: () => saved,
      }),
    })

  const logged = {
    readEnvelope: (envelope: LoggedPoints) => envelope,
    identify: () => ownIdentity,
    countClaimed: ({ rows }: LoggedPoints) => rows.points.length,
    toAnswer: () => saved,
  }

  const writeLoggedMetrics = toHandler({
    ...logged,
    type: 'metrics',
    call: 'logged',
    checkRows: ({ rows }: LoggedPoints, experiment) => dropOverLimits(experiment, rows),
    countAccepted: ({ rows }) => rows.points.length,
    commit: (origin, { rows }, experiment) => commitMetrics(origin, rows, experiment),
  })

  const writeMlflowPoints = toHandler({
    ...logged,
    type: 'metrics',
    call: 'mlflow',
    readEnvelope: (points: MlflowPoints) => points,
    countClaimed: ({ rows }: MlflowPoints) => rows.points.length,
    checkRows: ({ rows }: MlflowPoints, experiment) => dropOverLimits(experiment, rows),
    countAccepted: ({ rows }) => rows.points.length,
    commit: (origin, { rows }, experiment) => commitMetrics(origin, rows, experiment),
  })

  const writeLoggedUsage = toHandler({
    ...logged,
    type: 'systemMetrics',
    call: 'logged-usage',
    checkRows: ({ rows }: LoggedPoints) => rows,
    countAccepted: ({ points }) => points.length,
    commit: (origin, rows) => commitPoints(committers.systemMetrics, origin, rows),
  })

  return [
    ...createMlflowWriteRoutes({ ...deps, database, writePoints: writeMlflowPoints }),

    fastRoute({
      ...loggedBatch,
      async handle({ body, ...call }) {
        const { metrics, system, wrong } = readLoggedBatch(body)
        if (metrics.rows.points.length > 0 || system.rows.points.length === 0) {
          await writeLoggedMetrics({ ...call, body: metrics })
        }
        // What was stored above is stored once, also when this fails and the client sends all of it again.
        if (system.rows.points.length > 0) await writeLoggedUsage({ ...call, body: system })
        if (wrong.count > 0) throw toWrongPoints(wrong)
        return saved
      },
    }),

    fastRoute({
      ...metric,
      handle: toHandler({
        type: 'metrics',
        call: 'metric',
        readEnvelope: readMetric,
        countClaimed: () => 1,
        checkRows: ({ point }, experiment) => dropOverLimits(experiment, { points: [point], rowIndexes: [0] }),
        countAccepted: ({ rows }) => rows.points.length,
        commit: (origin, { rows }, experiment) => commitMetrics(origin, rows, experiment),
        toAnswer: () => saved,
      }),
    }),

    fastRoute({
      ...metricsBatch,
      handle: toHandler({
        type: 'metrics',
        call: 'batch',
        readEnvelope,
        countClaimed: countPoints,
        checkRows: (envelope, experiment) => dropOverLimits(experiment, readBatch(envelope)),
        countAccepted: ({ rows }) => countKept(rows.series),
        commit: (origin, { rows }, experiment) => commitBatch(origin, rows, experiment),
        toAnswer({ rows: { series, rejected, rejectedCount }, throttled }) {
          const answer: z.input<typeof metricsBatch.answer> = {
            msg: 'Saved',
            accepted: countKept(series),
            rejected,
            rejectedCount,
            throttled,
          }
          return JSON.stringify(toEnvelope(answer))
        },
      }),
    }),

    systemRoute(gpuMetrics, 'gpu-metrics', toGpuReading),
    systemRoute(ramMetrics, 'ram-metrics', toRamReading),
    systemRoute(cpuMetrics, 'cpu-metrics', toCpuReading),
    systemRoute(loadMetrics, 'load-metrics', toLoadReading),

    fastRoute({
      ...output,
      handle: toHandler({
        type: 'output',
        call: 'output',
        readEnvelope: (body: z.output<typeof output.body>, headers) => withoutUptimes(body, headers),
        identify: identifyOutput,
        countClaimed: ({ outputLines }) => outputLines.length,
        checkRows: (body) => body,
        countAccepted: ({ outputLines }) => outputLines.length,
        commit: (origin, body) =>
          committers.output.commit(origin.receivedMs, body.outputLines.length, (block) =>
            pushLines(block, origin, body),
          ),
        toAnswer: () => saved,
      }),
    }),
  ]
}
