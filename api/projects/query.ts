import { z } from 'zod'
import { flag, object, optional } from '../../http/body/fields.ts'
import { HttpError } from '../../http/errors.ts'
import { type Route, route } from '../../http/route.ts'
import type { ClickHouse } from '../../store/clickhouse/connection.ts'
import { readCurrentValues } from '../../store/clickhouse/points/current-values.ts'
import type { Queries } from '../../store/postgres/database.ts'
import {
  type ExperimentWithValues,
  listExperimentsWithValues,
} from '../../store/postgres/experiments/experiment-values.ts'
import { type Access, toViewer } from '../access.ts'
import { experimentPage, metadataAnswer, pageSizeMax, toMetadata } from '../experiments/experiments.ts'
import { type Column, listColumns, meets, parsePredicates, predicatesDescription } from './predicates.ts'
import { projectQuery } from './projects.ts'

/** Experiments per batch: each batch takes one query to each store. */
const experimentsPerBatch = 10_000
/** The names are part of the URL of the query to ClickHouse, which may have a megabyte. */
const metricNamesBytesMax = 100_000

const kinds = { params: 'parameter', log_other: 'other' } as const

type Deps = { reads: Queries; clickhouse: ClickHouse; access: Access }

/** Finds the experiments of a project that match predicates. */
export function createProjectQueryRoutes({ reads, clickhouse, access }: Deps): Route[] {
  return [
    route({
      method: 'POST',
      path: '/project/query',
      permission: 'reader',
      topic: 'Projects',
      summary:
        'Finds the experiments of a project that match the predicates, oldest first. With pageSize, `nextPage` is the ' +
        '`page` to request next, or null.',
      body: object({
        ...projectQuery.shape,
        predicates: z
          .unknown()
          .optional()
          .meta({ type: ['array', 'object'], items: { type: 'object' }, description: predicatesDescription }),
        archived: optional(flag),
        ...experimentPage,
      }),
      answer: z.object({ experiments: z.array(metadataAnswer), nextPage: z.string().nullable() }),
      shape: 'plain',
      async handle({ body: { predicates, archived = false, page, pageSize, ...reference }, caller }) {
        const condition = parsePredicates(predicates)
        const columns = listColumns(condition)
        const metricNames = columns.filter((it) => it.source === 'metrics').map((it) => it.name)
        refuseLongNames(metricNames)
        const values = columns.flatMap(({ source, name }) =>
          source === 'params' || source === 'log_other' ? [{ kind: kinds[source], name }] : [],
        )
        const compared = { values, withTags: columns.some((it) => it.source === 'tag') }
        const { projectId } = await access.project(caller, reference)
        const limit = pageSize ?? pageSizeMax
        const nowMs = Date.now()
        const found: ExperimentWithValues[] = []
        for (let afterId = BigInt(page ?? 0); found.length <= limit; ) {
          const part = { projectId, archived, afterId, limit: experimentsPerBatch }
          const experiments = await listExperimentsWithValues(reads, toViewer(caller), part, compared)
          const ids = experiments.map((it) => it.id)
          const metrics =
            metricNames.length > 0 && ids.length > 0 ? await readCurrentValues(clickhouse, ids, metricNames) : new Map()
          for (const experiment of experiments) {
            const read = createReader(experiment, values, metrics.get(experiment.id) ?? new Map(), nowMs)
            if (meets(condition, read)) found.push(experiment)
          }
          if (experiments.length < experimentsPerBatch) break
          afterId = experiments.at(-1)?.id ?? afterId
        }
        const shown = found.slice(0, limit)
        const last = shown.at(-1)
        return {
          experiments: shown.map((it) => toMetadata(it, nowMs)),
          nextPage: found.length > limit && last ? String(last.id) : null,
        }
      },
    }),
  ]
}

/** Returns a function that reads the values of a column. `columns` are the columns of `experiment.values`. */
function createReader(
  experiment: ExperimentWithValues,
  columns: { kind: string; name: string }[],
  metrics: Map<string, string>,
  nowMs: number,
) {
  const metadata = toMetadata(experiment, nowMs) as Record<string, unknown>
  return ({ source, name }: Column): string[] => {
    if (source === 'tag') return experiment.tags
    if (source === 'metrics') return present(metrics.get(name))
    if (source === 'metadata') return present(Object.hasOwn(metadata, name) ? metadata[name] : undefined)
    return present(experiment.values[columns.findIndex((it) => it.kind === kinds[source] && it.name === name)])
  }
}

const present = (value: unknown): string[] => (value == null ? [] : [String(value)])

function refuseLongNames(names: string[]) {
  const bytes = names.reduce((sum, it) => sum + Buffer.byteLength(it), 0)
  if (bytes <= metricNamesBytesMax) return
  throw new HttpError('badRequest', `predicates: the names of metrics must have ${metricNamesBytesMax} bytes together`)
}
