import { z } from 'zod'
import { toJsonInteger } from '../../../http/body/exact-json.ts'
import { object, text } from '../../../http/body/fields.ts'
import { type Route, route } from '../../../http/route.ts'
import { countEventsOfWindows } from '../../../store/clickhouse/monitoring/event-counts.ts'
import type { EventReader } from '../../../store/clickhouse/monitoring/reader.ts'
import { listColumns } from '../../../store/clickhouse/monitoring/sql/columns.ts'
import { checkMetric, isCount, readMetric, runQuery } from '../../../store/clickhouse/monitoring/sql/model-query.ts'
import type { Sandbox } from '../../../store/clickhouse/monitoring/sql/sandbox.ts'
import { count } from '../fields.ts'
import { type MonitoredModels, modelQuery } from '../monitored-model.ts'
import { findRange, readerRoute, readFields, seriesAnswer, toPoints } from './fields.ts'
import { openSegments, requireSandbox } from './segments.ts'

type Deps = { eventReader: EventReader; sandbox: Sandbox | undefined; models: MonitoredModels }

const whatMayBeRead =
  'MODEL has a row for each prediction: predictionId, modelVersion, timestamp (ms), __time, and its values as feature_<name>, ' +
  'prediction_<name> and label_<name>: numbers, or text when most values of a name are strings or booleans; NULL where there ' +
  'is none. The SQL is that of ClickHouse, limited to one SELECT of MODEL and a list of functions, and in time, memory and rows.'

/** Counts predictions, and runs the SQL of callers on those of one model. */
export function createReaderSqlRoutes({ eventReader, sandbox, models }: Deps): Route[] {
  return [
    route({
      ...readerRoute,
      path: '/api/mpm/v2/model/numberOfPredictions',
      summary: 'The number of predictions in each hour or day.',
      body: object(readFields),
      answer: seriesAnswer,
      async handle({ body, caller }) {
        const { id: modelId } = await models.findById(caller, body.modelId)
        const range = await findRange(eventReader, modelId, body)
        const segments = await openSegments({ eventReader, sandbox }, { modelId, predicates: body.predicates })
        return {
          data: await Array.fromAsync(segments, async ({ predicateKey, reader }) => {
            const counts = await countEventsOfWindows(reader, range.scope, range.windows)
            return { predicateKey, data: toPoints(range, (at) => counts[at]) }
          }),
        }
      },
    }),

    route({
      ...readerRoute,
      path: '/api/mpm/v2/custom-metrics/query',
      summary: `Computes a metric in each hour or day: SELECT <one aggregate> FROM MODEL [WHERE <condition>]. ${whatMayBeRead}`,
      body: object({ ...readFields, cometSql: text(50_000, 1) }),
      answer: seriesAnswer,
      async handle({ body, caller }) {
        const { id: modelId } = await models.findById(caller, body.modelId)
        const range = await findRange(eventReader, modelId, body)
        const runner = requireSandbox(sandbox)
        const [metric, segments] = await Promise.all([
          checkMetric(runner, body.cometSql),
          openSegments({ eventReader, sandbox }, { modelId, predicates: body.predicates }),
        ])
        const { scope, windows, starts } = range
        return {
          data: await Array.fromAsync(segments, async ({ predicateKey, reader, condition }) => {
            // Counted from rollups, if there is no condition.
            if (isCount(metric)) {
              const counts = await countEventsOfWindows(reader, scope, windows)
              return { predicateKey, data: toPoints(range, (at) => counts[at]) }
            }
            const texts = [metric.sql, condition ?? '']
            const columns = await listColumns(eventReader, modelId, metric.readsAll ? undefined : texts)
            const values = await readMetric(runner, metric, { scope, columns, windows, condition }, starts.length)
            return { predicateKey, data: toPoints(range, (at) => values[at]) }
          }),
        }
      },
    }),

    route({
      ...readerRoute,
      permission: 'admin',
      path: '/api/mpm/v2/admin/query',
      summary: `Runs one SELECT on the predictions of a model. ${whatMayBeRead}`,
      body: object({
        workspaceName: modelQuery.shape.workspaceName,
        modelName: modelQuery.shape.modelName,
        sql: text(50_000, 1),
        maxRows: count(1, Number.MAX_SAFE_INTEGER).describe('at most SVC_SQL_ROWS_MAX, which is also used when absent'),
      }),
      answer: z.object({
        columns: z.array(z.object({ name: z.string(), type: z.string().describe('of ClickHouse') })),
        rows: z.array(z.record(z.string(), z.unknown())),
        rowCount: z.int(),
        truncated: z.boolean().describe('whether there are more rows'),
      }),
      async handle({ body, caller }) {
        const { id: modelId } = await models.find(caller, body)
        const runner = requireSandbox(sandbox)
        const query = await runner.checkQuery(body.sql)
        const columns = await listColumns(eventReader, modelId, query.readsAll ? undefined : [query.sql])
        const scope = { modelId, kind: 'EVENTS' } as const
        const rowsMax = Math.min(body.maxRows ?? runner.limits.rowsMax, runner.limits.rowsMax)
        const read = await runQuery(runner, query, { scope, columns }, rowsMax)
        return {
          columns: read.columns,
          rows: read.rows.map((row) =>
            Object.fromEntries(read.columns.map(({ name, type }, at) => [name, toValue(row[at], type)])),
          ),
          rowCount: read.rows.length,
          truncated: read.isTruncated,
        }
      },
    }),
  ]
}

/** ClickHouse sends 64-bit integers as strings. */
function toValue(value: unknown, type: string): unknown {
  return typeof value === 'string' && /^(Nullable\()?U?Int64\)?$/.test(type) ? toJsonInteger(BigInt(value)) : value
}
