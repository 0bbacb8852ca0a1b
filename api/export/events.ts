import { z } from 'zod'
import { int64, object, optional } from '../../http/body/fields.ts'
import { HttpError } from '../../http/errors.ts'
import { type Call, type Route, route } from '../../http/route.ts'
import type { ClickHouse } from '../../store/clickhouse/connection.ts'
import { listEventColumns, selectEvents } from '../../store/clickhouse/export/events.ts'
import { formatClause } from '../../store/clickhouse/export/formats.ts'
import type { EventKind } from '../../store/clickhouse/monitoring/tables.ts'
import { type MonitoredModels, modelQuery } from '../monitoring/monitored-model.ts'
import { describeFile, format } from './file.ts'
import type { ExportSlots } from './slots.ts'

const columnsMax = 5_000

const labelQuery = object({
  ...modelQuery.shape,
  from: optional(int64).describe('of this time or later, ms since the Unix epoch'),
  to: optional(int64).describe('before this time, ms since the Unix epoch'),
  format,
})

const eventQuery = object({
  ...labelQuery.shape,
  datasetType: optional(z.enum(['EVENTS', 'TRAINING_EVENTS'], 'expected EVENTS or TRAINING_EVENTS')).describe(
    'TRAINING_EVENTS: the events of a reference data set, with their labels',
  ),
})

type Deps = { clickhouse: ClickHouse; models: MonitoredModels; slots: ExportSlots }

/** Exports of what deployed models reported. */
export function createEventExportRoutes({ clickhouse, models, slots }: Deps): Route[] {
  async function write(
    what: string,
    kind: EventKind,
    { query, caller, reply }: Call<unknown, z.output<typeof labelQuery>, unknown>,
  ) {
    const { format = 'parquet', modelVersion: version, from, to } = query
    const model = await models.find(caller, query)
    const signal = await slots.take(caller.userId, reply.raw)
    if (from !== undefined && to !== undefined && from >= to) {
      throw new HttpError('badRequest', 'to: must be later than from')
    }
    const time = (it: number | bigint | undefined) => (it === undefined ? undefined : Number(it))
    const scope = { modelId: model.id, kind, version, from: time(from), to: time(to) }
    const columns = await listEventColumns(clickhouse, scope)
    if (columns.length > columnsMax) {
      throw new HttpError(
        'badRequest',
        `These events have ${columns.length} different values, too many for one table: export a version by modelVersion, or less ` +
          'time by from and to.',
      )
    }
    const { stream } = await clickhouse.streamExport(
      `${selectEvents(clickhouse, scope, columns)} ${formatClause(format)}`,
      { isWhole: false, signal },
    )
    describeFile(reply, `${model.name}-${what}`, format)
    return stream
  }

  const common = { method: 'GET', permission: 'caller', topic: 'Export', answer: z.string(), shape: 'bytes' } as const
  const describe = (what: string) =>
    `Exports ${what} of a model as a wide table: one row each, with a column for each of their values. In the order of their ` +
    'acceptance. A user has one export at a time.'
  return [
    route({
      ...common,
      path: '/export/events',
      summary: describe('the events'),
      query: eventQuery,
      handle: (call) => write('events', call.query.datasetType ?? 'EVENTS', call),
    }),
    route({
      ...common,
      path: '/export/labels',
      summary: describe('the labels'),
      query: labelQuery,
      handle: (call) => write('labels', 'LATE_LABELS', call),
    }),
  ]
}
