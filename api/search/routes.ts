import { z } from 'zod'
import { flag, integerBetween, object, optional, text } from '../../http/body/fields.ts'
import { type Route, route } from '../../http/route.ts'
import { createReadThroughCache } from '../../runtime/read-through-cache.ts'
import type { ClickHouse } from '../../store/clickhouse/connection.ts'
import { listSeriesNames } from '../../store/clickhouse/points/series-counts.ts'
import type { Queries } from '../../store/postgres/database.ts'
import {
  listFrequentValues,
  listNewestIds,
  listTagsOfProject,
  listValueNames,
} from '../../store/postgres/projects/columns.ts'
import { parseQuery } from '../../store/search/parse.ts'
import { attributes, type Field } from '../../store/search/query.ts'
import { SearchError } from '../../store/search/search-error.ts'
import type { Tenants } from '../../throttle/tenants.ts'
import type { Access } from '../access.ts'
import { projectQuery } from '../projects/projects.ts'
import { complete, type KnownName } from './complete.ts'

const charactersMax = 10_000
const valuesMax = 20
const states = ['running', 'finished', 'crashed', 'lost']

type Deps = { reads: Queries; clickhouse: ClickHouse; access: Access; tenants: Pick<Tenants, 'shared'> }

const answer = z.object({
  error: z
    .object({ message: z.string(), at: z.int().describe('the character where it cannot be read, counted from 0') })
    .optional(),
  from: z.int().describe('a suggestion replaces the text from here'),
  to: z.int().describe('to before here'),
  suggestions: z.array(z.object({ text: z.string(), is: z.enum(['field', 'operator', 'value', 'word']) })),
})

/** The names of more runs would be read for seconds. */
const runsMax = 10_000
/** Somebody who writes asks with every letter. */
const namesFreshForMs = 10_000
const projectsMax = 200

/** Helps to write queries. */
export function createSearchRoutes({ reads, clickhouse, access, tenants }: Deps): Route[] {
  const findNames = createReadThroughCache<KnownName[], undefined>({
    async find(asked) {
      const [projectId, archived] = JSON.parse(asked) as [string, boolean]
      const ids = await listNewestIds(reads, projectId, archived, runsMax)
      const [values, metrics] = await Promise.all([
        listValueNames(reads, ids),
        tenants.shared(() => listSeriesNames(clickhouse, ids)),
      ])
      return [
        ...metrics.map((name) => ({ source: 'metric' as const, name })),
        ...values.map((it) => ({ source: it.kind, name: it.name })),
      ]
    },
    freshForMs: { found: namesFreshForMs, absent: 0 },
    entriesMax: projectsMax,
  })

  return [
    route({
      method: 'POST',
      path: '/project/query-completion',
      charge: 'none',
      permission: 'reader',
      topic: 'Projects',
      summary:
        'Says what may stand at a place of a query for `/project/runs`: names that the newest runs have and their values. And ' +
        'whether the query can be read, with the place where it cannot.',
      body: object({
        ...projectQuery.shape,
        query: text(charactersMax),
        at: optional(integerBetween(0, charactersMax)).describe('the place; by default the end of the query'),
        archived: optional(flag),
      }),
      answer,
      shape: 'plain',
      async handle({ body: { query, at = query.length, archived = false, ...reference }, caller }) {
        const { projectId } = await access.project(caller, reference)
        const names = (await findNames(JSON.stringify([projectId, archived]), undefined)) ?? []
        const findValues = (field: Field) => listValues(projectId, archived, field)
        const completion = await complete(query, Math.min(at, query.length), { names, findValues })
        const error = errorOf(query)
        return { ...(error && { error }), ...completion }
      },
    }),
  ]

  async function listValues(projectId: string, archived: boolean, { source, name }: Field): Promise<string[]> {
    if (source === 'metric') return []
    if (source !== 'attribute') {
      const kinds = ['parameter' as const, 'other' as const].filter((it) => source === 'any' || source === it)
      return await listFrequentValues(reads, projectId, archived, {
        kinds: source === 'tag' ? ['other'] : kinds,
        name,
        limit: valuesMax,
      })
    }
    switch (attributes[name]?.type) {
      case 'state':
        return states
      case 'tags':
        return await listTagsOfProject(reads, projectId, archived)
      case 'flag':
        return ['true', 'false']
      case 'time':
        return ['1h', '1d', '7d', '30d']
      case 'duration':
        return ['1m', '1h', '1d']
      default:
        return []
    }
  }
}

function errorOf(query: string): { message: string; at: number } | undefined {
  try {
    parseQuery(query)
    return undefined
  } catch (error) {
    if (error instanceof SearchError) return { message: error.message, at: error.at }
    throw error
  }
}
