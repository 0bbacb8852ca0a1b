import { z } from 'zod'
import { flag, object, optional, text } from '../../http/body/fields.ts'
import { HttpError } from '../../http/errors.ts'
import { type Caller, type Route, route } from '../../http/route.ts'
import type { ClickHouse } from '../../store/clickhouse/connection.ts'
import { readCurrentValues } from '../../store/clickhouse/points/current-values.ts'
import type { Queries } from '../../store/postgres/database.ts'
import {
  type ExperimentWithValues,
  listExperimentsWithValues,
} from '../../store/postgres/experiments/experiment-values.ts'
import { type Access, type ProjectQuery, toViewer } from '../access.ts'
import { metadataAnswer, toMetadata } from '../experiments/experiments.ts'
import { type Page, pageFields, pagesDescription, sortExperiments, toNextPage, toPage } from '../experiments/pages.ts'
import { metadataAliases, systemColumns } from './columns.ts'
import {
  type Column,
  type Condition,
  listColumns,
  meets,
  parsePredicates,
  predicatesDescription,
} from './predicates.ts'
import { projectQuery } from './projects.ts'

/** Experiments per batch: each batch takes one query to each store. */
const experimentsPerBatch = 10_000
/** The names are part of the URL of the query to ClickHouse, which may have a megabyte. */
const metricNamesBytesMax = 100_000

const kinds = { params: 'parameter', log_other: 'other' } as const

type Deps = { reads: Queries; clickhouse: ClickHouse; access: Access }

const found = z.object({
  experiments: z.array(metadataAnswer),
  experimentKeys: z.array(z.string()),
  nextPage: z.string().nullable(),
})

type Search = { project: ProjectQuery; condition: Condition; archived: boolean; page: Page }

/** Finds the experiments of a project that match predicates. */
export function createProjectQueryRoutes({ reads, clickhouse, access }: Deps): Route[] {
  async function find(caller: Caller, { project, condition, archived, page }: Search): Promise<z.input<typeof found>> {
    const columns = listColumns(condition)
    const metricNames = columns.filter((it) => it.source === 'metrics').map((it) => it.name)
    refuseLongNames(metricNames)
    const compared = toCompared(columns)
    const { projectId } = await access.project(caller, project)
    const end = page.offset + page.limit
    const nowMs = Date.now()
    const matching: ExperimentWithValues[] = []
    for (let { afterId } = page; page.sort || matching.length <= end; ) {
      const part = { projectId, archived, afterId, limit: experimentsPerBatch }
      const experiments = await listExperimentsWithValues(reads, toViewer(caller), part, compared)
      const ids = experiments.map((it) => it.id)
      const metrics =
        metricNames.length > 0 && ids.length > 0 ? await readCurrentValues(clickhouse, ids, metricNames) : new Map()
      for (const experiment of experiments) {
        const read = createReader(experiment, compared, metrics.get(experiment.id) ?? new Map(), nowMs)
        if (meets(condition, read)) matching.push(experiment)
      }
      if (experiments.length < experimentsPerBatch) break
      afterId = experiments.at(-1)?.id ?? afterId
    }
    const shown = sortExperiments(matching, page.sort).slice(page.offset, end)
    return {
      experiments: shown.map((it) => toMetadata(it, nowMs)),
      experimentKeys: shown.map((it) => it.key),
      nextPage: matching.length > end ? toNextPage(page, shown.at(-1)) : null,
    }
  }

  return [
    route({
      method: 'POST',
      path: '/project/query',
      permission: 'reader',
      topic: 'Projects',
      summary: `Finds the experiments of a project that match the predicates, oldest first unless sorted. ${pagesDescription}`,
      body: object({
        ...projectQuery.shape,
        predicates: tree(predicatesDescription),
        archived: optional(flag),
        ...pageFields,
      }),
      answer: found,
      shape: 'plain',
      handle: ({ body: { predicates, archived = false, ...body }, caller }) =>
        find(caller, {
          project: body,
          condition: parsePredicates(predicates, 'predicates'),
          archived,
          page: toPage(body),
        }),
    }),

    route({
      method: 'POST',
      path: '/experiments/search',
      permission: 'reader',
      topic: 'Projects',
      summary: 'Finds experiments as `/project/query` does, by other names of the fields.',
      body: object({
        projectId: text(100, 1),
        rulesTree: tree('as the predicates of /project/query'),
        page: pageFields.page,
        limit: pageFields.pageSize,
        deleted: optional(flag).describe('true: the archived ones'),
      }),
      answer: found,
      shape: 'plain',
      handle: ({ body: { projectId, rulesTree, page, limit, deleted = false }, caller }) =>
        find(caller, {
          project: { projectId },
          condition: parsePredicates(rulesTree, 'rulesTree'),
          archived: deleted,
          page: toPage({ page, pageSize: limit }),
        }),
    }),
  ]
}

/** What must be read of each experiment to test these columns, besides its metadata and metrics. */
export function toCompared(columns: Column[]) {
  const values = columns.flatMap(({ source, name }) =>
    source === 'params' || source === 'log_other' ? [{ kind: kinds[source], name }] : [],
  )
  const system = columns.flatMap(({ source, name }) => (source === 'metadata' && systemColumns.get(name)) || [])
  return { values, system, withTags: columns.some((it) => it.source === 'tag') }
}

export const tree = (description: string) =>
  z
    .unknown()
    .optional()
    .meta({ type: ['array', 'object'], items: { type: 'object' }, description })

/** Returns a function that reads the values of a column. `read` are the columns of its `values` and `system`. */
export function createReader(
  experiment: ExperimentWithValues,
  read: { values: { kind: string; name: string }[]; system: string[] },
  metrics: Map<string, string>,
  nowMs: number,
) {
  const metadata = toMetadata(experiment, nowMs) as Record<string, unknown>
  return ({ source, name }: Column): string[] => {
    if (source === 'tag') return experiment.tags
    if (source === 'metrics') return present(metrics.get(name))
    if (source === 'metadata') {
      const detail = systemColumns.get(name)
      if (detail) return present(experiment.system[read.system.indexOf(detail)])
      // Clients compare it in seconds.
      if (name === 'duration') return present(Number(metadata.durationMillis) / 1_000)
      const field = metadataAliases.get(name) ?? name
      return present(Object.hasOwn(metadata, field) ? metadata[field] : undefined)
    }
    return present(experiment.values[read.values.findIndex((it) => it.kind === kinds[source] && it.name === name)])
  }
}

const present = (value: unknown): string[] => (value == null ? [] : [String(value)])

function refuseLongNames(names: string[]) {
  const bytes = names.reduce((sum, it) => sum + Buffer.byteLength(it), 0)
  if (bytes <= metricNamesBytesMax) return
  throw new HttpError('badRequest', `predicates: the names of metrics must have ${metricNamesBytesMax} bytes together`)
}
