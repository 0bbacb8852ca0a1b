import { createHash } from 'node:crypto'
import { z } from 'zod'
import { integerBetween, list, object, optional, text } from '../../http/body/fields.ts'
import { HttpError } from '../../http/errors.ts'
import { type Route, route } from '../../http/route.ts'
import type { ClickHouse } from '../../store/clickhouse/connection.ts'
import type { Queries } from '../../store/postgres/database.ts'
import { toAliveSince } from '../../store/postgres/experiments/heartbeats.ts'
import { listRunsWithDataset } from '../../store/postgres/mlflow/runs.ts'
import { toOtherName } from '../../store/postgres/mlflow/tag-names.ts'
import type { RunCondition } from '../../store/postgres/runs/condition.ts'
import { createConditions } from '../../store/search/conditions.ts'
import { attributes, type Field, type Query, type Test, toAttributeName } from '../../store/search/query.ts'
import { findSortedRuns, type SortBy } from '../../store/search/sorted-runs.ts'
import { parseCursor, toCursor } from '../projects/run-order.ts'
import { runAnswer } from './answers.ts'
import type { AwaitStored } from './await-stored.ts'
import { viewType } from './experiments.ts'
import { parseOrder, readFilter } from './filter.ts'
import type { ExperimentFinder } from './find.ts'
import type { RunReader } from './read-runs.ts'
import { common, mlflow } from './workspace.ts'

const runsMax = 50_000
const runsDefault = 1_000
const newestFirst = ['attributes.start_time DESC']

type Conditions = ReturnType<typeof createConditions>
type Deps = {
  reads: Queries
  clickhouse: ClickHouse
  find: ExperimentFinder
  reader: RunReader
  awaitStored: AwaitStored
}

/** The search of runs, by the filters of MLflow, in Postgres and ClickHouse. */
export function createMlflowSearchRoutes({ reads, clickhouse, find, reader, awaitStored }: Deps): Route[] {
  return [
    route({
      ...common,
      method: 'POST',
      path: `${mlflow}/runs/search`,
      charge: 'none',
      summary: 'Finds runs of projects by a filter, the newest first unless ordered. What has no value comes last.',
      body: object({
        experiment_ids: optional(list(text(200, 1), 1_000)),
        filter: optional(text(10_000)),
        run_view_type: viewType,
        max_results: optional(integerBetween(1, runsMax)).describe(
          'fewer come where they are large: go on with the token',
        ),
        order_by: optional(list(text(2_000), 10)),
        page_token: optional(text(100_000)),
      }),
      answer: z.object({ runs: z.array(runAnswer), next_page_token: z.string().optional() }),
      async handle({ body, ...call }) {
        const { filter = '', run_view_type: view = 'ACTIVE_ONLY', max_results: size = runsDefault } = body
        const query = readFilter(filter)
        const order = (body.order_by?.length ? body.order_by : newestFirst).map(parseOrder)
        const projectId: string[] = []
        for (const id of new Set(body.experiment_ids ?? [])) projectId.push((await find.experiment(call, id)).id)
        if (projectId.length === 0) return { runs: [] }

        const asked = [projectId, filter, view, order]
        const question = createHash('sha256').update(JSON.stringify(asked)).digest('base64url').slice(0, 16)
        const after = body.page_token ? parseCursor(body.page_token, question) : undefined
        const nowMs = Date.now()
        const deleted = view === 'ALL' ? ('either' as const) : view === 'DELETED_ONLY'
        const runs = { projectId, deleted, archived: undefined, aliveSinceMs: toAliveSince(nowMs) }
        const conditions = createConditions({ reads, clickhouse }, runs, nowMs)
        await awaitStored()
        const directions = order.map((it) => (it.isDescending ? ('desc' as const) : ('asc' as const)))
        const sorted = { by: order.map(toSortBy), directions, after, limit: size + 1 }
        const condition = toCondition(query, conditions, projectId)
        const found = await findSortedRuns({ reads, conditions }, { ...runs, condition }, sorted)
        const page = found.runs.slice(0, size)
        const { runs: read, taken } = await reader.readPage(page.map((it) => it.id))
        const last = found.runs.length > taken ? page[taken - 1] : undefined
        return {
          runs: read,
          ...(last && { next_page_token: toCursor({ keys: last.place, id: last.id }, question) }),
        }
      },
    }),
  ]

  /** Datasets, and tags under the names that we keep them by, are what the language of searches does not know. */
  async function toCondition(query: Query, conditions: Conditions, projectIds: string[]): Promise<RunCondition> {
    switch (query.is) {
      case 'and':
      case 'or': {
        const of = await Promise.all(query.of.map((it) => toCondition(it, conditions, projectIds)))
        return { is: query.is, of }
      }
      case 'not':
        return { is: 'not', of: await toCondition(query.of, conditions, projectIds) }
      case 'word':
        return await conditions.toCondition(query)
      case 'has':
        return await conditions.toCondition({ ...query, field: toKeptField(query.field) })
      case 'test': {
        const field = toDatasetField(query.field)
        if (!field) return await conditions.toCondition({ ...query, field: toKeptField(query.field) })
        const all = await listRunsWithDataset(reads, projectIds, field)
        const passed = all.filter((it) => passes(query, it.value) !== query.isNegated)
        return { is: 'among', ids: `{${passed.map((it) => it.ids.slice(1, -1)).join(',')}}` }
      }
    }
  }
}

const datasetFields = ['name', 'digest', 'context'] as const

function toDatasetField({ source, name }: Field) {
  const found = source === 'any' ? /^datasets?\.(\w+)$/.exec(name)?.[1] : undefined
  return datasetFields.find((it) => it === found)
}

function passes({ values, operator }: Test, actual: string): boolean {
  return values.some((it) => {
    if (it.is === 'pattern') return it.matches(actual)
    if (operator === '=' || operator === 'in') return it.text === actual
    throw new HttpError('badRequest', 'filter: fields of datasets are compared with =, !=, LIKE, ILIKE and IN')
  })
}

function toKeptField(field: Field): Field {
  if (field.source !== 'tag') return field
  const name = toOtherName(field.name)
  return name === 'Name' ? { source: 'attribute', name: 'name', of: 'last' } : { ...field, name }
}

function toSortBy({ source, name }: ReturnType<typeof parseOrder>): SortBy {
  switch (source) {
    case 'metric':
      return { metric: { name, of: 'last' } }
    case 'parameter':
      return { of: 'parameter', name }
    case 'tag':
      return toOtherName(name) === 'Name' ? { of: 'run', name: 'name' } : { of: 'other', name: toOtherName(name) }
    default: {
      const known = attributes[toAttributeName(name) ?? '']?.column
      if (known === undefined || known === 'tags') {
        throw new HttpError('badRequest', `order_by: there is no attribute ${name.slice(0, 200)}`)
      }
      return { of: 'run', name: known }
    }
  }
}
