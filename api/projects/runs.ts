import { createHash } from 'node:crypto'
import { z } from 'zod'
import { flag, list, object, optional, text } from '../../http/body/fields.ts'
import { HttpError } from '../../http/errors.ts'
import { type Route, route } from '../../http/route.ts'
import type { ClickHouse } from '../../store/clickhouse/connection.ts'
import { readCurrentValues } from '../../store/clickhouse/points/current-values.ts'
import { readSummaryValues } from '../../store/clickhouse/points/summary-values.ts'
import type { Queries } from '../../store/postgres/database.ts'
import type { ExperimentWithValues } from '../../store/postgres/experiments/experiment-values.ts'
import { listNewestRuns, listRuns, listTagsOfRuns, listValuesOfRuns } from '../../store/postgres/experiments/runs.ts'
import type { Access } from '../access.ts'
import { createColumnsOf } from '../search/columns.ts'
import { isAskedFor } from '../search/evaluate.ts'
import type { Field } from '../search/query.ts'
import { queryText, readQuery } from '../search/query-field.ts'
import { listColumns, meets, parsePredicates, predicatesDescription } from './predicates.ts'
import { projectQuery } from './projects.ts'
import { createReader, toCompared, tree } from './query.ts'
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
import { type Cell, createOrder, parseCursor, type Sorted, toCursor, toSortKey } from './run-order.ts'

const sizeMax = 1_000
const sizeDefault = 100
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
        ),
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
        const condition = parsePredicates(body.predicates, 'predicates')
        const query = readQuery(body.query ?? '')
        const sort = (body.sort ?? [{ column: newestFirst, order: 'desc' as const }]).map((it) => ({
          column: it.column,
          direction: it.order ?? ('asc' as const),
        }))
        const showsGroups = groupBy.length > inGroup.length
        const ordered = showsGroups ? groupBy.map((column) => ({ column, direction: 'asc' as const })) : sort
        const { projectId } = await access.project(caller, body)
        const asked = createHash('sha256')
          .update(
            JSON.stringify([projectId, ordered, body.predicates, body.search, body.query, archived, groupBy, inGroup]),
          )
          .digest('base64url')
          .slice(0, 16)
        const after = body.cursor === undefined ? undefined : parseCursor(body.cursor, asked)

        const nowMs = Date.now()
        const tested = listColumns(condition)
        const asks = createColumnsOf(query)
        const isPlain =
          tested.length === 0 && !body.search && !body.query?.trim() && groupBy.length === 0 && isNewestFirst(sort)
        if (isPlain) return await readNewest()

        // Every run of the project is looked at, with no more of it than filters, groups and order need.
        const looked = [...groupBy, ...ordered.map((it) => it.column), ...asks.columns]
        const testedMetrics = tested.filter((it) => it.source === 'metrics').map((it) => it.name)
        const metrics = [...new Set(looked.flatMap(summaryNameOf))]
        refuseLongNames([...testedMetrics, ...metrics, ...columns.flatMap(summaryNameOf)])
        const compared = toCompared(tested)
        const values = [...compared.values, ...looked.flatMap(toValueName)]
        const withTags = compared.withTags || Boolean(body.search) || looked.some(isTags)
        const all = await listRuns(reads, projectId, archived, { values, system: compared.system, withTags })
        const ids = all.map((it) => it.id)
        const [current, summaries] = await Promise.all([
          testedMetrics.length > 0 && ids.length > 0
            ? readCurrentValues(clickhouse, ids, testedMetrics)
            : new Map<bigint, Map<string, string>>(),
          readSummaryValues(clickhouse, ids, metrics),
        ])
        const search = body.search?.toLowerCase()
        let nextPlace = compared.values.length
        const places = looked.map((it) => (toValueName(it).length > 0 ? nextPlace++ : -1))
        const cellAt = (run: ExperimentWithValues, at: number): Cell => {
          const value = run.values[places[at] as number] ?? null
          return cellOf(looked[at] as RunColumn, { run, value, tags: run.tags, summary: summaries.get(run.id), nowMs })
        }
        const groupKey = JSON.stringify(inGroup)
        const matching = all.filter((run) => {
          if (search !== undefined && !isFound(run, search)) return false
          const at = groupBy.length + ordered.length
          const read = (field: Field) => asks.valuesOf(field, (place) => cellAt(run, at + place))
          if (!isAskedFor(query, read, nowMs)) return false
          if (inGroup.length > 0 && JSON.stringify(inGroup.map((_, at) => cellAt(run, at))) !== groupKey) return false
          return (
            tested.length === 0 ||
            meets(condition, createReader(run, compared, current.get(run.id) ?? new Map(), nowMs))
          )
        })
        const rows = showsGroups ? gather(matching) : matching.map(toRow)
        const order = createOrder(ordered.map((it) => it.direction))
        const sorted = rows.sort(order)
        const from = after === undefined ? 0 : sorted.findIndex((it) => order(it, after) > 0)
        const page = from === -1 ? [] : sorted.slice(from, from + size)
        const last = page.at(-1)
        const hasMore = from !== -1 && from + size < sorted.length
        return {
          total: matching.length,
          ...(showsGroups
            ? { groups: page.map(({ cells, count }) => ({ values: cells, count })) }
            : { runs: await toRuns(page.map((it) => it.run)) }),
          ...(hasMore && last && { nextCursor: toCursor(last, asked) }),
        }

        async function readNewest() {
          const place = after && { startTimeMs: BigInt(after.keys[0]?.[1] ?? 0), id: after.id }
          const { runs, total } = await listNewestRuns(reads, projectId, archived, { after: place, limit: size + 1 })
          refuseLongNames(columns.flatMap(summaryNameOf))
          const page = runs.slice(0, size)
          const last = runs.length > size ? page.at(-1) : undefined
          const keyOf = (run: ExperimentWithValues) => toSortKey(Number(run.startTimeMs))
          return {
            total,
            runs: await toRuns(page),
            ...(last && { nextCursor: toCursor({ keys: [keyOf(last)], id: last.id }, asked) }),
          }
        }

        type Row = Sorted & { run: ExperimentWithValues; cells: Cell[]; count: number }

        function toRow(run: ExperimentWithValues): Row {
          const keys = ordered.map((_, at) => toSortKey(cellAt(run, groupBy.length + at)))
          return { keys, id: run.id, run, cells: [], count: 1 }
        }

        function gather(runs: ExperimentWithValues[]): Row[] {
          const groups = new Map<string, Row>()
          for (const run of runs) {
            const cells = groupBy.map((_, at) => cellAt(run, at))
            const key = JSON.stringify(cells)
            const group = groups.get(key)
            if (group) group.count++
            else groups.set(key, { keys: cells.map(toSortKey), id: idOf(key), run, cells, count: 1 })
          }
          return [...groups.values()]
        }

        async function toRuns(runs: ExperimentWithValues[]) {
          const shown = runs.map((it) => it.id)
          const [valuesOf, tagsOf, summaryOf] = await Promise.all([
            listValuesOfRuns(reads, shown, columns.flatMap(toValueName)),
            columns.some(isTags) ? listTagsOfRuns(reads, shown) : new Map<bigint, string[]>(),
            readSummaryValues(clickhouse, shown, [...new Set(columns.flatMap(summaryNameOf))]),
          ])
          return runs.map((run) => ({
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

const isFound = (run: ExperimentWithValues, search: string) =>
  [run.name, run.key, ...run.tags].some((it) => it.toLowerCase().includes(search))

/** Decides between groups whose values sort as equals, such as 1 and 1.0. */
const idOf = (key: string) => createHash('sha256').update(key).digest().readBigUInt64LE(0)
