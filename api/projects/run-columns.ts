import { z } from 'zod'
import { flag, object, optional, text } from '../../http/body/fields.ts'
import { HttpError } from '../../http/errors.ts'
import { type Route, route } from '../../http/route.ts'
import type { ClickHouse } from '../../store/clickhouse/connection.ts'
import { listMetrics, type SummaryValues } from '../../store/clickhouse/points/summaries/values.ts'
import type { Queries } from '../../store/postgres/database.ts'
import type { Experiment } from '../../store/postgres/experiments/experiments.ts'
import { listExperimentIds, listValueColumns } from '../../store/postgres/projects/columns.ts'
import type { Access } from '../access.ts'
import { toMetadata } from '../experiments/experiments.ts'
import { projectQuery } from './projects.ts'
import type { Cell } from './run-order.ts'

export const columnsMax = 1_000
/** The names are part of the URL of the query to ClickHouse, which may have a megabyte. */
const metricNamesBytesMax = 100_000

const parts = ['last', 'min', 'max'] as const
const types = ['number', 'text', 'boolean', 'time', 'duration', 'tags'] as const

/** The metadata of a run that a table shows. Times are ms since the Unix epoch, durations ms. */
const metadataTypes = {
  name: 'text',
  key: 'text',
  state: 'text',
  startTime: 'time',
  endTime: 'time',
  lastActive: 'time',
  duration: 'duration',
  userName: 'text',
  tags: 'tags',
  archived: 'boolean',
  hasCrashed: 'boolean',
  filePath: 'text',
} as const satisfies Record<string, (typeof types)[number]>

type MetadataName = keyof typeof metadataTypes
const metadataNames = Object.keys(metadataTypes) as [MetadataName, ...MetadataName[]]

const name = text(2_001, 1)

/** A column of the runs table. */
export const runColumn = z
  .discriminatedUnion(
    'source',
    [
      object({
        source: z.literal('metadata'),
        name: z.enum(metadataNames, `expected one of ${metadataNames.join(', ')}`),
      }),
      object({ source: z.literal('parameter'), name }),
      object({ source: z.literal('other'), name }),
      object({
        source: z.literal('metric'),
        name: name.describe('with `context` the metric’s name, otherwise its summary name `<context>_<name>`'),
        context: optional(text(1_000)),
        of: optional(z.enum(parts, `expected one of ${parts.join(', ')}`)).describe('default last'),
      }),
    ],
    'expected a column of metadata, parameter, other or metric',
  )
  .meta({ type: 'object' })
export type RunColumn = z.output<typeof runColumn>

/** What is known of a run. */
export type Known = {
  run: Experiment
  /** Of a parameter or other. */
  value: string | null
  tags: string[]
  summary: Map<string, Partial<SummaryValues>> | undefined
  nowMs: number
}

/** The value of a column; numbers that JSON has no form for are text. */
export function cellOf(column: RunColumn, { run, value, tags, summary, nowMs }: Known): Cell {
  if (column.source === 'metadata') return column.name === 'tags' ? tags : metadataOf(run, column.name, nowMs)
  if (column.source !== 'metric') return value
  const number = summary?.get(summaryNameOf(column)[0] as string)?.[column.of ?? 'last']
  if (number === undefined) return null
  return Number.isFinite(number) ? number : String(number)
}

/** The summary name of a metric column; none of any other. */
export const summaryNameOf = (it: RunColumn): string[] =>
  it.source === 'metric' ? [it.context ? `${it.context}_${it.name}` : it.name] : []

function metadataOf(run: Experiment, of: Exclude<MetadataName, 'tags'>, nowMs: number): Cell {
  const end = run.endTimeMs ?? run.activeAtMs
  switch (of) {
    case 'name':
      return run.name
    case 'key':
      return run.key
    case 'state':
      return stateOf(run, nowMs)
    case 'startTime':
      return Number(run.startTimeMs)
    case 'endTime':
      return Number(end)
    case 'lastActive':
      return Number(run.activeAtMs)
    case 'duration':
      return Math.max(0, Number(end - run.startTimeMs))
    case 'userName':
      return run.userName
    case 'archived':
      return run.archived
    case 'hasCrashed':
      return run.hasCrashed ?? false
    case 'filePath':
      return run.filePath
  }
}

/** `lost`: it sends no more signs of life, and never said that it ended. */
export function stateOf(run: Experiment, nowMs: number): 'running' | 'finished' | 'crashed' | 'lost' {
  if (run.hasCrashed) return 'crashed'
  if (toMetadata(run, nowMs).running) return 'running'
  return run.aliveAtMs === null && run.reportedStatus === null ? 'finished' : 'lost'
}

export function refuseLongNames(names: string[]) {
  const bytes = names.reduce((sum, it) => sum + Buffer.byteLength(it), 0)
  if (bytes <= metricNamesBytesMax) return
  throw new HttpError('badRequest', `columns: the names of metrics must have ${metricNamesBytesMax} bytes together`)
}

type Deps = { reads: Queries; clickhouse: ClickHouse; access: Access }

const columnAnswer = z.object({
  source: z.enum(['metadata', 'parameter', 'other', 'metric']),
  name: z.string(),
  context: z.string().optional().describe('of a metric that was logged in one'),
  type: z.enum(types),
})

const valueTypes = { boolean: 'boolean', double: 'number', string: 'text' } as const

export function createRunColumnRoutes({ reads, clickhouse, access }: Deps): Route[] {
  return [
    route({
      method: 'POST',
      path: '/project/run-columns',
      charge: 'none',
      permission: 'reader',
      topic: 'Projects',
      summary: 'Lists the columns that the runs of a project have, as `/project/runs` takes them.',
      body: object({ ...projectQuery.shape, archived: optional(flag) }),
      answer: z.object({ columns: z.array(columnAnswer) }),
      shape: 'plain',
      async handle({ body: { archived = false, ...reference }, caller }) {
        const { projectId } = await access.project(caller, reference)
        const [values, ids] = await Promise.all([
          listValueColumns(reads, projectId, archived),
          listExperimentIds(reads, projectId, archived),
        ])
        const metrics = await listMetrics(clickhouse, ids)
        return {
          columns: [
            ...metadataNames.map((it) => ({ source: 'metadata' as const, name: it, type: metadataTypes[it] })),
            ...values.map((it) => ({ source: it.kind, name: it.name, type: valueTypes[it.type] })),
            ...metrics.map(({ metric, context }) => ({
              source: 'metric' as const,
              name: metric,
              ...(context !== '' && { context }),
              type: 'number' as const,
            })),
          ],
        }
      },
    }),
  ]
}
