import { z } from 'zod'
import { flag, object, optional, text } from '../../http/body/fields.ts'
import { type Caller, type Route, route } from '../../http/route.ts'
import type { ClickHouse } from '../../store/clickhouse/connection.ts'
import type { Queries } from '../../store/postgres/database.ts'
import { toAliveSince } from '../../store/postgres/experiments/heartbeats.ts'
import { listFoundExperiments } from '../../store/postgres/runs/find-runs.ts'
import { createConditions } from '../../store/search/conditions.ts'
import type { Query } from '../../store/search/query.ts'
import { type Access, type ProjectQuery, toViewer } from '../access.ts'
import { metadataAnswer, toMetadata } from '../experiments/experiments.ts'
import { type Page, pageFields, pagesDescription, toNextPage, toPage } from '../experiments/pages.ts'
import { queryText, readQuery } from '../search/query-field.ts'
import { toPredicateCondition } from './predicate-condition.ts'
import { type Condition, parsePredicates, predicatesDescription } from './predicates.ts'
import { projectQuery } from './projects.ts'

type Deps = { reads: Queries; clickhouse: ClickHouse; access: Access }

const found = z.object({
  experiments: z.array(metadataAnswer),
  experimentKeys: z.array(z.string()),
  nextPage: z.string().nullable(),
})

type Search = { project: ProjectQuery; condition: Condition; query: Query; archived: boolean; page: Page }

/** Finds the experiments of a project that match predicates. */
export function createProjectQueryRoutes({ reads, clickhouse, access }: Deps): Route[] {
  async function find(
    caller: Caller,
    { project, condition, query, archived, page }: Search,
  ): Promise<z.input<typeof found>> {
    const { projectId } = await access.project(caller, project)
    const nowMs = Date.now()
    const runs = { projectId, archived, aliveSinceMs: toAliveSince(nowMs) }
    const conditions = createConditions({ reads, clickhouse }, runs, nowMs)
    const of = await Promise.all([
      toPredicateCondition(condition, { reads, clickhouse, runs, findAmong: conditions.findAmong }),
      conditions.toCondition(query),
    ])
    const scope = { ...runs, condition: { is: 'and' as const, of } }
    const experiments = await listFoundExperiments(reads, toViewer(caller), scope, { ...page, limit: page.limit + 1 })
    const shown = experiments.slice(0, page.limit)
    return {
      experiments: shown.map((it) => toMetadata(it, nowMs)),
      experimentKeys: shown.map((it) => it.key),
      nextPage: experiments.length > page.limit ? toNextPage(page, shown.at(-1)) : null,
    }
  }

  return [
    route({
      method: 'POST',
      path: '/project/query',
      charge: 'none',
      permission: 'reader',
      topic: 'Projects',
      summary: `Finds the experiments of a project that match the predicates and the query, oldest first unless sorted. ${pagesDescription}`,
      body: object({
        ...projectQuery.shape,
        predicates: tree(predicatesDescription),
        query: queryText,
        archived: optional(flag),
        ...pageFields,
      }),
      answer: found,
      shape: 'plain',
      handle: ({ body: { predicates, query = '', archived = false, ...body }, caller }) =>
        find(caller, {
          project: body,
          condition: parsePredicates(predicates, 'predicates'),
          query: readQuery(query),
          archived,
          page: toPage(body),
        }),
    }),

    route({
      method: 'POST',
      path: '/experiments/search',
      charge: 'none',
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
          query: readQuery(''),
          archived: deleted,
          page: toPage({ page, pageSize: limit }),
        }),
    }),
  ]
}

export const tree = (description: string) =>
  z
    .unknown()
    .optional()
    .meta({ type: ['array', 'object'], items: { type: 'object' }, description })
