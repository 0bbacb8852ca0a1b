import { z } from 'zod'
import { flag, optional } from '../../http/body/fields.ts'
import { type Route, route } from '../../http/route.ts'
import type { ClickHouse } from '../../store/clickhouse/connection.ts'
import { listSeriesNames } from '../../store/clickhouse/points/series-counts.ts'
import type { Queries } from '../../store/postgres/database.ts'
import { listExperimentIds, listTagsOfProject, listValueColumns } from '../../store/postgres/projects/columns.ts'
import type { Access } from '../access.ts'
import { projectQuery } from './projects.ts'

const columnAnswer = z.object({
  name: z.string(),
  id: z.string().describe('`<name>--<source>`'),
  type: z.enum(['string', 'boolean', 'double', 'timenumber', 'datetime']),
  source: z.enum(['metadata', 'log_other', 'params', 'metrics', 'tag']),
})
type Column = z.input<typeof columnAnswer>

/** The metadata columns that every experiment has. */
const metadataColumns: Pick<Column, 'name' | 'type'>[] = [
  { name: 'experimentKey', type: 'string' },
  { name: 'experimentName', type: 'string' },
  { name: 'userName', type: 'string' },
  { name: 'filePath', type: 'string' },
  { name: 'fileName', type: 'string' },
  { name: 'startTimeMillis', type: 'datetime' },
  { name: 'endTimeMillis', type: 'datetime' },
  { name: 'durationMillis', type: 'timenumber' },
  { name: 'archived', type: 'boolean' },
  { name: 'running', type: 'boolean' },
  { name: 'user_name', type: 'string' },
  { name: 'file_path', type: 'string' },
  { name: 'file_name', type: 'string' },
  { name: 'start_server_timestamp', type: 'datetime' },
  { name: 'end_server_timestamp', type: 'datetime' },
  { name: 'duration', type: 'timenumber' },
  { name: 'os_release', type: 'string' },
  { name: 'machine', type: 'string' },
  { name: 'processor', type: 'string' },
]

/** Columns of existing clients, by the field of the metadata that they stand for. */
export const metadataAliases = new Map<string, string>([
  ['user_name', 'userName'],
  ['file_path', 'filePath'],
  ['file_name', 'fileName'],
  ['start_server_timestamp', 'startTimeMillis'],
  ['end_server_timestamp', 'endTimeMillis'],
])

/** Columns that are fields of the system details. */
export const systemColumns = new Map([
  ['os_release', 'osRelease'],
  ['machine', 'machine'],
  ['processor', 'processor'],
])

const sources = { parameter: 'params', other: 'log_other' } as const

type Deps = { reads: Queries; clickhouse: ClickHouse; access: Access }

/** Lists the columns by which the experiments of a project can be compared. */
export function createColumnRoutes({ reads, clickhouse, access }: Deps): Route[] {
  return [
    route({
      method: 'GET',
      path: '/project/column-names',
      permission: 'reader',
      topic: 'Projects',
      summary: 'Lists the metadata, others, parameters, metrics and tags that the experiments of a project have.',
      query: z.object({ ...projectQuery.shape, archived: optional(flag) }),
      answer: z.object({ columns: z.array(columnAnswer) }),
      shape: 'plain',
      async handle({ query: { archived = false, ...reference }, caller }) {
        const { projectId } = await access.project(caller, reference)
        const [values, tags, ids] = await Promise.all([
          listValueColumns(reads, projectId, archived),
          listTagsOfProject(reads, projectId, archived),
          listExperimentIds(reads, projectId, archived),
        ])
        const metrics = await listSeriesNames(clickhouse, ids)
        return {
          columns: [
            ...metadataColumns.map((it) => toColumn(it.name, it.type, 'metadata')),
            ...values.map((it) => toColumn(it.name, it.type, sources[it.kind])),
            ...metrics.map((name) => toColumn(name, 'double', 'metrics')),
            // Clients look a tag up here before they ask for it.
            ...tags.map((name) => toColumn(name, 'string', 'tag')),
          ],
        }
      },
    }),
  ]
}

function toColumn(name: string, type: Column['type'], source: Column['source']): Column {
  return { name, id: `${name}--${source}`, type, source }
}
