import { isShownInList, type Viewer } from '../accounts/visibility.ts'
import type { Queries } from '../database.ts'
import {
  type Experiment,
  type ExperimentPage,
  experimentColumns,
  experimentsWithPlace,
  orderOfPage,
} from '../experiments/experiments.ts'
import type { ExportedRun } from '../experiments/exported-runs.ts'
import { runColumns, runsWithPlace } from '../experiments/runs.ts'
import { type RunCondition, toSql } from './condition.ts'
import { describeAttribute, type RunField } from './fields.ts'
import {
  type Direction,
  isBehind,
  joinValue,
  type KeyValue,
  orderOf,
  type RunKey,
  type SortKey,
  selectKeys,
  selectPlace,
} from './keys.ts'
import { createParameters, type Parameters } from './parameters.ts'

/** Runs of a project, those symlinked into it included. Callers have checked who asks. */
export type RunScope = {
  /** Of several projects, those symlinked into them are left out. */
  projectId: string | readonly string[]
  /** True: the deleted ones only; `either`: these too. */
  deleted?: boolean | 'either'
  /** Undefined: all. */
  archived: boolean | undefined
  condition: RunCondition
  /** A run that gave a sign of life after it is running. */
  aliveSinceMs: number
}

const withUser = 'FROM experiments e JOIN users u ON u.id = e.user_id'

function isAskedFor(
  { projectId, deleted = false, archived, condition, aliveSinceMs }: RunScope,
  parameters: Parameters,
) {
  const isArchived = archived === undefined ? '' : `AND e.archived = ${parameters.bind(archived, 'boolean')}`
  const isThere = deleted === 'either' ? 'true' : `e.deleted_at IS ${deleted ? 'NOT ' : ''}NULL`
  const isOf =
    typeof projectId === 'string'
      ? isShownInList('e', parameters.bind(projectId, 'text'))
      : isOfProjects(parameters.bind(JSON.stringify(projectId), 'text'))
  return `${isOf} AND ${isThere} ${isArchived}
    AND ${toSql(condition, aliveSinceMs, parameters)}`
}

/** @param list of ids, as JSON */
const isOfProjects = (list: string) => `e.project_id = ANY(ARRAY(SELECT json_array_elements_text((${list})::json)))`

const isOfAny = (projectId: RunScope['projectId']) =>
  typeof projectId === 'string' ? isShownInList('e', '$1') : 'e.project_id = ANY($1)'

type Order = {
  keys: RunKey[]
  directions: Direction[]
  /** The last row of the page before. */
  after: { keys: SortKey[]; id: bigint } | undefined
  limit: number
}

/** A run, with the place that it has in the order. */
export type FoundRun = Experiment & { place: SortKey[] }

/** A page of the runs that meet a condition, and how many do. Of runs whose keys are equal the newest come first. */
export async function findRuns(
  queries: Queries,
  scope: RunScope,
  { keys, directions, after, limit }: Order,
): Promise<{ runs: FoundRun[]; total: number }> {
  const parameters = createParameters()
  const { joins, selected } = selectKeys(keys, scope.aliveSinceMs, parameters)
  const where = isAskedFor(scope, parameters)
  const order = orderOf(directions).join(', ')
  const isOnPage = after ? `WHERE ${isBehind(after.keys, after.id, directions, parameters)}` : ''
  const places = keys.map((_, at) => `json_build_array(r${at}, coalesce(t${at}, n${at}::text))`)
  const rows = await queries.rows<
    { total: number; place: [SortKey[0], string | null][]; id: bigint | null } & Experiment
  >(
    `WITH found AS MATERIALIZED (SELECT e.id${selected} ${withUser} ${joins} WHERE ${where}),
     page AS (
       SELECT * FROM (SELECT found.*, ${keys.map(selectPlace).join(', ')} FROM found) AS placed
       ${isOnPage} ORDER BY ${order}, id DESC LIMIT ${limit})
     SELECT counted.total, json_build_array(${places.join(', ')}) AS place, ${runColumns}
     FROM (SELECT count(*)::int AS total FROM found) AS counted
     LEFT JOIN (page JOIN (experiments e JOIN users u ON u.id = e.user_id JOIN projects p ON p.id = e.project_id
       JOIN workspaces w ON w.id = p.workspace_id) ON e.id = page.id) ON true ORDER BY ${order}, page.id DESC`,
    parameters.values,
  )
  const runs = rows.filter((it) => it.id !== null)
  return {
    total: rows[0]?.total ?? 0,
    runs: runs.map(({ total: _, place, ...run }) => ({ ...run, place: place.map(toSortKey) })),
  }
}

const toSortKey = ([rank, value]: [SortKey[0], string | null]): SortKey => [
  rank,
  rank === 2 ? (value ?? '') : Number(value),
]

/** The combinations of values that the runs have, each with the number of its runs, in any order. */
export async function countGroups(
  queries: Queries,
  scope: RunScope,
  keys: RunKey[],
): Promise<{ values: KeyValue[]; count: number }[]> {
  const parameters = createParameters()
  const { joins, selected } = selectKeys(keys, scope.aliveSinceMs, parameters)
  const columns = keys.map((_, at) => `c${at}`).join(', ')
  const rows = await queries.rows<{ count: number } & Record<string, KeyValue>>(
    `SELECT ${columns}, count(*)::int AS count
     FROM (SELECT e.id${selected} ${withUser} ${joins} WHERE ${isAskedFor(scope, parameters)}) AS found GROUP BY ${columns}`,
    parameters.values,
  )
  return rows.map((row) => ({ values: keys.map((_, at) => row[`c${at}`] as KeyValue), count: row.count }))
}

/** A page of the runs that meet a condition, with what their metadata has for a viewer. */
export async function listFoundExperiments(
  queries: Queries,
  viewer: Viewer,
  scope: RunScope,
  { afterId, limit, offset = 0, sort }: Pick<ExperimentPage, 'afterId' | 'limit' | 'offset' | 'sort'>,
): Promise<Experiment[]> {
  // The columns name the user alone.
  const parameters = createParameters([viewer.viewerId])
  const where = isAskedFor(scope, parameters)
  return await queries.rows<Experiment>(
    `SELECT ${experimentColumns} ${experimentsWithPlace} WHERE ${where} AND e.id > ${parameters.bind(afterId, 'bigint')}
     ORDER BY ${orderOfPage(sort)} LIMIT ${limit} OFFSET ${offset}`,
    parameters.values,
  )
}

/** All runs that meet a condition, by id. */
export async function listFoundRuns(queries: Queries, scope: RunScope): Promise<ExportedRun[]> {
  const parameters = createParameters()
  return await queries.rows<ExportedRun>(
    `SELECT e.id, e.key, e.name, p.name AS project ${runsWithPlace} WHERE ${isAskedFor(scope, parameters)} ORDER BY e.id`,
    parameters.values,
  )
}

/** What values can be listed of: also a field of the system details, and all tags of a run together, as JSON. */
export type ListedField = RunField | { of: 'system'; name: string } | { of: 'tag list' }

/** The values that runs have of a field, each with the ids of its runs as Postgres writes a list. */
export async function listIdsByValue(
  queries: Queries,
  scope: RunScope,
  field: ListedField,
): Promise<{ value: string; ids: string }[]> {
  const parameters = createParameters()
  const where = isAskedFor(scope, parameters)
  const { from, value } = toSource(field, scope.aliveSinceMs, parameters)
  return await queries.rows<{ value: string; ids: string }>(
    `SELECT ${value} AS value, array_agg(e.id)::text AS ids ${withUser} ${from} WHERE ${where} AND ${value} IS NOT NULL
     GROUP BY 1`,
    parameters.values,
  )
}

function toSource(field: ListedField, aliveSinceMs: number, parameters: Parameters): { from: string; value: string } {
  if (field.of === 'run') return { from: '', value: describeAttribute(field.name, aliveSinceMs, parameters).asText }
  if (field.of === 'tags') return { from: 'JOIN experiment_tags t ON t.experiment_id = e.id', value: 't.tag' }
  if (field.of === 'tag list') {
    const tags = 'SELECT t.tag FROM experiment_tags t WHERE t.experiment_id = e.id ORDER BY t.added_at, t.tag'
    return { from: '', value: `array_to_json(ARRAY(${tags}))::text` }
  }
  if (field.of === 'system') {
    const detail = `d.content::json ->> ${parameters.bind(field.name, 'text')}`
    return { from: "JOIN experiment_documents d ON d.experiment_id = e.id AND d.kind = 'system'", value: `(${detail})` }
  }
  const { join, value } = joinValue(field, 0, parameters)
  return { from: join, value }
}

/** The ids of all runs of a project, archived or not. */
export async function listIds(queries: Queries, projectId: RunScope['projectId']): Promise<bigint[]> {
  const rows = await queries.rows<{ id: bigint }>(`SELECT e.id FROM experiments e WHERE ${isOfAny(projectId)}`, [
    projectId,
  ])
  return rows.map((it) => it.id)
}

/** How many runs a project has, and the least and the greatest of their ids. */
export async function readIdRange(
  queries: Queries,
  projectId: RunScope['projectId'],
): Promise<{ count: number; low: bigint; high: bigint }> {
  const found = await queries.row<{ count: number; low: bigint | null; high: bigint | null }>(
    `SELECT count(*)::int AS count, min(e.id) AS low, max(e.id) AS high FROM experiments e WHERE ${isOfAny(projectId)}`,
    [projectId],
  )
  return { count: found?.count ?? 0, low: found?.low ?? 0n, high: found?.high ?? 0n }
}
