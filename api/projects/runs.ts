import { createHash } from 'node:crypto'
import { z } from 'zod'
import { flag, list, object, optional, text } from '../../http/body/fields.ts'
import { HttpError } from '../../http/errors.ts'
import { type Route, route } from '../../http/route.ts'
import type { ClickHouse } from '../../store/clickhouse/connection.ts'
import { readSummaryValues } from '../../store/clickhouse/points/summaries/values.ts'
import type { Queries } from '../../store/postgres/database.ts'
import type { Experiment } from '../../store/postgres/experiments/experiments.ts'
import { toAliveSince } from '../../store/postgres/experiments/heartbeats.ts'
import { listNewestRuns, listTagsOfRuns, listValuesOfRuns } from '../../store/postgres/experiments/runs.ts'
import type { RunCondition, RunTest } from '../../store/postgres/runs/condition.ts'
import type { RunField } from '../../store/postgres/runs/fields.ts'
import { countGroups } from '../../store/postgres/runs/find-runs.ts'
import type { KeyValue, RunKey } from '../../store/postgres/runs/keys.ts'
import { createConditions } from '../../store/search/conditions.ts'
import { findSortedRuns, type SortBy } from '../../store/search/sorted-runs.ts'
import type { Access } from '../access.ts'
import { queryText, readQuery } from '../search/query-field.ts'
import { toPredicateCondition } from './predicate-condition.ts'
import { parsePredicates, predicatesDescription } from './predicates.ts'
import { projectQuery } from './projects.ts'
import { tree } from './query.ts'
import {
  cellOf,
  columnsMax,
  type Known,
  type RunColumn,
  refuseLongNames,
  runColumn,
  stateOf,
  summaryNameOf,
} from './run-columns.ts'
import { type Cell, createOrder, parseCursor, toCursor, toSortKey } from './run-order.ts'

const sizeMax = 1_000
const sizeDefault = 100
/** Of parameters and others of a page, each of which may have a million characters. */
const valueBytesMax = 16 * 1024 ** 2
const sortsMax = 10
const groupsMax = 5

const cell = z
  .union([z.string(), z.number(), z.boolean(), z.array(z.string())])
  .nullable()
  .meta({ type: ['string', 'number', 'boolean', 'array', 'null'], items: { type: 'string' } })

const runsAnswer = z.object({
  total: z.int().describe('runs that match, on all pages'),
  runs: z
    .array(
      z.object({
        experimentKey: z.string(),
        name: z.string(),
        state: z.string(),
        values: z.array(cell).describe('in the order of columns; NaN and the infinities as strings'),
      }),
    )
    .optional(),
  groups: z.array(z.object({ values: z.array(cell), count: z.int() })).optional(),
  nextCursor: z.string().optional(),
})

type Deps = { reads: Queries; clickhouse: ClickHouse; access: Access }

/** The runs of a project as rows of a table. */
export function createRunRoutes({ reads, clickhouse, access }: Deps): Route[] {
  return [
    route({
      method: 'POST',
      path: '/project/runs',
      charge: 'none',
      permission: 'reader',
      topic: 'Projects',
      summary:
        'Reads the runs of a project as rows of chosen columns, the newest first unless sorted. Numbers sort before NaN, ' +
        'text and what has no value, which comes last in both directions. With `groupBy` it reads groups with their ' +
        'counts; with a value of `inGroup` for each column of `groupBy`, the runs of that group.',
      body: object({
        ...projectQuery.shape,
        columns: list(runColumn, columnsMax),
        sort: optional(
          list(
            object({ column: runColumn, order: optional(z.enum(['asc', 'desc'], 'must be asc or desc')) }),
            sortsMax,
          ),
        ),
        predicates: tree(predicatesDescription),
        query: queryText,
        search: optional(text(1_000)).describe('a part of the name, the key or a tag, ignoring case'),
        archived: optional(flag).describe('true: the archived ones only'),
        groupBy: optional(list(runColumn, groupsMax)),
        inGroup: optional(list(cell, groupsMax)).describe('values of the first columns of groupBy'),
        size: optional(
          z.int('expected an integer').min(1, 'must be 1 or more').max(sizeMax, `must be ${sizeMax} or fewer`),
        ).describe(`runs, fewer with long values; default ${sizeDefault}`),
        cursor: optional(text(100_000, 1)).describe('the nextCursor of the page before'),
      }),
      answer: runsAnswer,
      shape: 'plain',
      async handle({ body, caller }) {
        const { columns, groupBy = [], inGroup = [], size = sizeDefault, archived = false } = body
        if (inGroup.length > groupBy.length) {
          throw new HttpError(
            'badRequest',
            `inGroup: must have ${groupBy.length} values or fewer, as groupBy has columns`,
          )
        }
        const predicates = parsePredicates(body.predicates, 'predicates')
        const query = readQuery(body.query ?? '')
        const given = body.sort?.length ? body.sort : undefined
        const sort = (given ?? [{ column: newestFirst, order: 'desc' as const }]).map((it) => ({
          column: it.column,
          direction: it.order ?? ('asc' as const),
        }))
        const showsGroups = groupBy.length > inGroup.length
        const ordered = showsGroups ? groupBy.map((column) => ({ column, direction: 'asc' as const })) : sort
        const { projectId } = await access.project(caller, body)
        const question = createHash('sha256')
          .update(
            JSON.stringify([projectId, ordered, body.predicates, body.search, body.query, archived, groupBy, inGroup]),
          )
          .digest('base64url')
          .slice(0, 16)
        const after = body.cursor === undefined ? undefined : parseCursor(body.cursor, question)

        const nowMs = Date.now()
        const isPlain =
          body.predicates == null && !body.search && !body.query?.trim() && groupBy.length === 0 && isNewestFirst(sort)
        if (isPlain) return await readNewest()

        refuseLongNames([...groupBy, ...ordered.map((it) => it.column), ...columns].flatMap(summaryNameOf))
        const runs = { projectId, archived, aliveSinceMs: toAliveSince(nowMs) }
        const conditions = createConditions({ reads, clickhouse }, runs, nowMs)
        const word = body.search && ({ is: 'word', text: body.search } as const)
        const condition = toCondition()
        return showsGroups ? await readGroups() : await readRuns()

        async function toCondition(): Promise<RunCondition> {
          const of = await Promise.all([
            conditions.toCondition(query),
            toPredicateCondition(predicates, { reads, clickhouse, runs, findAmong: conditions.findAmong }),
            conditions.toCondition(word || { is: 'and', of: [] }),
            ...inGroup.map(isInGroup),
          ])
          return { is: 'and', of }
        }

        async function readRuns() {
          const by = ordered.map(
            ({ column }): SortBy => (column.source === 'metric' ? { metric: toMetricPart(column) } : toField(column)),
          )
          const directions = ordered.map((it) => it.direction)
          const order = { by, directions, after, limit: size + 1 }
          const { runs: found, total } = await findSortedRuns({ reads, conditions }, { ...runs, condition }, order)
          const { page, last } = await toPage(found)
          return {
            total,
            runs: page,
            ...(last && { nextCursor: toCursor({ keys: last.place, id: last.id }, question) }),
          }
        }

        async function readGroups() {
          const [met, ...keys] = await Promise.all([condition, ...groupBy.map(toKey)])
          const found = await countGroups(reads, { ...runs, condition: met }, keys)
          const groups = found.map(({ values, count }) => {
            const cells = values.map(toCell)
            return { keys: cells.map(toSortKey), id: idOf(JSON.stringify(cells)), cells, count }
          })
          const order = createOrder(groupBy.map(() => 'asc' as const))
          const sorted = groups.sort(order)
          const from = after === undefined ? 0 : sorted.findIndex((it) => order(it, after) > 0)
          const page = from === -1 ? [] : sorted.slice(from, from + size)
          const last = page.at(-1)
          const hasMore = from !== -1 && from + size < sorted.length
          return {
            total: found.reduce((sum, it) => sum + it.count, 0),
            groups: page.map(({ cells, count }) => ({ values: cells, count })),
            ...(hasMore && last && { nextCursor: toCursor(last, question) }),
          }
        }

        async function toKey(column: RunColumn): Promise<RunKey> {
          if (column.source === 'metric') return { of: 'given', ...(await conditions.readMetric(toMetricPart(column))) }
          return toField(column)
        }

        /** Whether a run has this value of a column of `groupBy`. */
        async function isInGroup(cell: Cell, at: number): Promise<RunCondition> {
          const column = groupBy[at] as RunColumn
          if (column.source === 'metric') {
            const part = { metric: toMetricPart(column) }
            if (cell === null) return { is: 'not', of: await conditions.has(part) }
            return await conditions.isNumber(part.metric, Number(cell))
          }
          const field = toField(column)
          if (cell === null) return { is: 'not', of: { is: 'has', field } }
          if (Array.isArray(cell)) return await conditions.hasTags(cell)
          return { is: 'test', field, tests: [toTest(cell)], isNegated: false }
        }

        async function readNewest() {
          const place = after && { startTimeMs: BigInt(after.keys[0]?.[1] ?? 0), id: after.id }
          const { runs, total } = await listNewestRuns(reads, projectId, archived, { after: place, limit: size + 1 })
          refuseLongNames(columns.flatMap(summaryNameOf))
          const { page, last } = await toPage(runs)
          const keyOf = (run: Experiment) => toSortKey(Number(run.startTimeMs))
          return {
            total,
            runs: page,
            ...(last && { nextCursor: toCursor({ keys: [keyOf(last)], id: last.id }, question) }),
          }
        }

        /** The first of these runs that fit into a page, and the last of them if there are more. */
        async function toPage<Run extends Experiment>(found: Run[]) {
          const asked = found.slice(0, size)
          const shown = asked.map((it) => it.id)
          const [{ values: valuesOf, taken }, tagsOf, summaryOf] = await Promise.all([
            listValuesOfRuns(reads, shown, columns.flatMap(toValueName), valueBytesMax),
            columns.some(isTags) ? listTagsOfRuns(reads, shown) : new Map<bigint, string[]>(),
            readSummaryValues(clickhouse, shown, [...new Set(columns.flatMap(summaryNameOf))], partsOf(columns)),
          ])
          const page = asked.slice(0, taken).map((run) => ({
            experimentKey: run.key,
            name: run.name,
            state: stateOf(run, nowMs),
            values: columns.map((column) => {
              const [named] = toValueName(column)
              const value = named ? (valuesOf.get(run.id)?.[named.kind]?.[named.name] ?? null) : null
              const known: Known = { run, value, tags: tagsOf.get(run.id) ?? [], summary: summaryOf.get(run.id), nowMs }
              return cellOf(column, known)
            }),
          }))
          return { page, last: found.length > taken ? asked[taken - 1] : undefined }
        }
      },
    }),
  ]
}

const newestFirst: RunColumn = { source: 'metadata', name: 'startTime' }

const isNewestFirst = (sort: { column: RunColumn; direction: string }[]) =>
  sort.length === 1 &&
  sort[0]?.direction === 'desc' &&
  sort[0].column.source === 'metadata' &&
  sort[0].column.name === newestFirst.name

const isTags = (it: RunColumn) => it.source === 'metadata' && it.name === 'tags'

const toValueName = (it: RunColumn) =>
  it.source === 'parameter' || it.source === 'other' ? [{ kind: it.source, name: it.name }] : []

const partsOf = (columns: RunColumn[]) => [
  ...new Set(columns.flatMap((it) => (it.source === 'metric' ? toMetricPart(it).of : []))),
]

/** What Postgres keeps of a run. */
function toField(column: Exclude<RunColumn, { source: 'metric' }>): RunField {
  if (column.source !== 'metadata') return { of: column.source, name: column.name }
  return column.name === 'tags' ? { of: 'tags' } : { of: 'run', name: column.name }
}

const toMetricPart = (column: Extract<RunColumn, { source: 'metric' }>) => ({
  name: summaryNameOf(column)[0] as string,
  of: column.of ?? ('last' as const),
})

function toTest(cell: string | number | boolean): RunTest {
  if (typeof cell === 'number') return { as: 'number', comparison: '=', number: String(cell) }
  if (typeof cell === 'boolean') return { as: 'flag', comparison: '=', flag: cell }
  return { as: 'text', comparison: '=', text: cell }
}

function toCell(value: KeyValue): Cell {
  if (typeof value === 'bigint') return Number(value)
  return typeof value === 'number' && !Number.isFinite(value) ? String(value) : value
}

/** Decides between groups whose values sort as equals, such as 1 and 1.0. */
const idOf = (key: string) => createHash('sha256').update(key).digest().readBigUInt64LE(0)
