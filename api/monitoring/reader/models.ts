import { z } from 'zod'
import { object, text } from '../../../http/body/fields.ts'
import { type Route, route } from '../../../http/route.ts'
import type { ClickHouse } from '../../../store/clickhouse/connection.ts'
import { countByVersion } from '../../../store/clickhouse/monitoring/events.ts'
import type { EventReader } from '../../../store/clickhouse/monitoring/reader.ts'
import { listColumns } from '../../../store/clickhouse/monitoring/sql/columns.ts'
import { systemColumns } from '../../../store/clickhouse/monitoring/sql/model-table.ts'
import { eventKinds, type ValuePart } from '../../../store/clickhouse/monitoring/tables.ts'
import { listWorkspaces } from '../../../store/postgres/accounts/workspaces.ts'
import type { Database } from '../../../store/postgres/database.ts'
import { listModelsOfWorkspaces } from '../../../store/postgres/monitoring/models.ts'
import { type MonitoredModels, modelQuery } from '../monitored-model.ts'
import { readerRoute } from './fields.ts'

type Deps = { database: Database; clickhouse: ClickHouse; eventReader: EventReader; models: MonitoredModels }

const modelsMax = 100_000
const types = { numeric: 'NUMERICAL', categorical: 'CATEGORICAL' } as const
const typeAnswer = z.enum(['NUMERICAL', 'CATEGORICAL']).describe('NUMERICAL when most values are numbers')
const sourceOf = { feature: 'model_input_features', prediction: 'model_output_features' } as const
const kindOf = { feature: 'INPUT_FEATURE', prediction: 'OUTPUT_PREDICTION', label: 'LABEL' } as const satisfies Record<
  ValuePart,
  string
>

/** Lists models, their columns and their versions. */
export function createReaderModelRoutes({ database, clickhouse, eventReader, models }: Deps): Route[] {
  const get = { ...readerRoute, method: 'GET' } as const
  return [
    route({
      ...get,
      path: '/api/mpm/v3/workspaces',
      summary: 'Lists the workspaces of the caller with their monitored models and data sets.',
      answer: z.object({
        workspaces: z.array(
          z.object({
            workspaceId: z.string(),
            workspaceName: z.string(),
            models: z.array(z.object({ modelId: z.string(), modelName: z.string() })),
          }),
        ),
      }),
      async handle({ caller }) {
        const workspaces = await listWorkspaces(database, caller.viewerId)
        const all = await listModelsOfWorkspaces(database, {
          workspaceIds: workspaces.map((it) => it.id),
          limit: modelsMax,
        })
        const ofWorkspaces = Map.groupBy(all, (it) => it.workspaceId)
        return {
          workspaces: workspaces.map(({ id, name }) => ({
            workspaceId: id,
            workspaceName: name,
            models: (ofWorkspaces.get(id) ?? []).map((it) => ({ modelId: String(it.id), modelName: it.name })),
          })),
        }
      },
    }),

    route({
      ...get,
      path: '/api/mpm/v2/model/details',
      summary: 'The features, predictions and labels of a model with their types, and its versions.',
      query: object({ modelId: text(100, 1) }),
      answer: z.object({
        name: z.string(),
        model: z.object({
          modelId: z.string(),
          name: z.string(),
          workspaceName: z.string(),
          features: z
            .array(z.object({ name: z.string(), type: typeAnswer, source: z.enum(Object.values(sourceOf)) }))
            .describe('features and predictions'),
          labels: z.array(z.object({ name: z.string(), type: typeAnswer })),
          versions: z.array(z.string()),
        }),
      }),
      async handle({ query, caller }) {
        const { id, name, workspace } = await models.findById(caller, query.modelId)
        const [columns, counts] = await Promise.all([listColumns(eventReader, id), countByVersion(clickhouse, [id])])
        const ofEvents = counts.filter((it) => it.kind !== eventKinds.LATE_LABELS)
        return {
          name,
          model: {
            modelId: String(id),
            name,
            workspaceName: workspace.name,
            features: columns.flatMap(({ part, name, type }) =>
              part === 'label' ? [] : [{ name, type: types[type], source: sourceOf[part] }],
            ),
            labels: columns.filter((it) => it.part === 'label').map(({ name, type }) => ({ name, type: types[type] })),
            versions: [...new Set(ofEvents.map((it) => it.version))].filter((it) => it !== ''),
          },
        }
      },
    }),

    route({
      ...get,
      permission: 'admin',
      path: '/api/mpm/v2/admin/model/schema',
      summary: 'The columns of a model as the table MODEL of SQL: those that every model has, and one for each value.',
      query: object({ workspaceName: modelQuery.shape.workspaceName, modelName: modelQuery.shape.modelName }),
      answer: z.object({
        columns: z.array(
          z.object({
            name: z.string(),
            type: z.string().describe('of ClickHouse'),
            kind: z.enum([...Object.values(kindOf), 'SYSTEM']),
          }),
        ),
      }),
      async handle({ query, caller }) {
        const { id } = await models.find(caller, query)
        const columns = await listColumns(eventReader, id)
        return {
          columns: [
            ...systemColumns.map((it) => ({ ...it, kind: 'SYSTEM' as const })),
            ...columns.map(({ column, type, part }) => ({
              name: column,
              type: type === 'numeric' ? 'Nullable(Float64)' : 'Nullable(String)',
              kind: kindOf[part],
            })),
          ],
        }
      },
    }),
  ]
}
