import { isShownIn } from '../accounts/visibility.ts'
import type { Queries } from '../database.ts'
import type { ValueKind } from '../experiments/values.ts'

/** The type that all values of one name share. */
type ValueType = 'boolean' | 'double' | 'string'

type ValueColumn = { kind: ValueKind; name: string; type: ValueType }

const isNumber = `value ~ '^\\s*[+-]?(\\d+\\.?\\d*|\\.\\d+)([eE][+-]?\\d+)?\\s*$' OR lower(value) IN ('nan', 'inf', '-inf',
  'infinity', '-infinity')`

/** The experiments of the project `$1`, archived or not (`$2`), those symlinked into it included. */
const ofProject = `e.archived = $2 AND e.deleted_at IS NULL AND ${isShownIn('e', '$1')}`

/** The names of the parameters and others in a project, each with the type that fits all its values. */
export async function listValueColumns(queries: Queries, projectId: string, archived: boolean): Promise<ValueColumn[]> {
  return await queries.rows<ValueColumn>(
    `SELECT v.kind, v.name, CASE WHEN bool_and(lower(value) IN ('true', 'false')) THEN 'boolean'
       WHEN bool_and(${isNumber}) THEN 'double' ELSE 'string' END AS type
     FROM experiments e JOIN experiment_values v ON v.experiment_id = e.id
     WHERE ${ofProject}
     GROUP BY v.kind, v.name ORDER BY v.kind, v.name`,
    [projectId, archived],
  )
}

/** The ids of the newest experiments of a project. */
export async function listNewestIds(
  queries: Queries,
  projectId: string,
  archived: boolean,
  limit: number,
): Promise<bigint[]> {
  const rows = await queries.rows<{ id: bigint }>(
    `SELECT e.id FROM experiments e WHERE ${ofProject} ORDER BY e.id DESC LIMIT $3`,
    [projectId, archived, limit],
  )
  return rows.map((it) => it.id)
}

/** The names of the parameters and others of experiments. */
export async function listValueNames(queries: Queries, experimentIds: bigint[]) {
  return await queries.rows<{ kind: ValueKind; name: string }>(
    `SELECT v.kind, v.name FROM experiment_values v WHERE v.experiment_id = ANY($1) GROUP BY v.kind, v.name
     ORDER BY v.kind, v.name`,
    [experimentIds],
  )
}

/** The tags of a project's experiments. */
export async function listTagsOfProject(queries: Queries, projectId: string, archived: boolean): Promise<string[]> {
  const rows = await queries.rows<{ tag: string }>(
    `SELECT DISTINCT t.tag FROM experiments e JOIN experiment_tags t ON t.experiment_id = e.id
     WHERE ${ofProject} ORDER BY t.tag`,
    [projectId, archived],
  )
  return rows.map((it) => it.tag)
}

/** The ids of a project's experiments, to look them up in ClickHouse. */
export async function listExperimentIds(queries: Queries, projectId: string, archived: boolean): Promise<bigint[]> {
  const rows = await queries.rows<{ id: bigint }>(
    `SELECT e.id FROM experiments e
     WHERE ${ofProject}`,
    [projectId, archived],
  )
  return rows.map((it) => it.id)
}

/** What the runs of a project have as a parameter or other of some name, the most frequent first. */
export async function listFrequentValues(
  queries: Queries,
  projectId: string,
  archived: boolean,
  names: { kinds: ValueKind[]; name: string; limit: number },
): Promise<string[]> {
  const rows = await queries.rows<{ value: string }>(
    `SELECT v.value FROM experiments e JOIN experiment_values v ON v.experiment_id = e.id
     WHERE ${ofProject} AND v.kind = ANY($3) AND v.name = $4 AND length(v.value) <= 200
     GROUP BY v.value ORDER BY count(*) DESC, v.value LIMIT $5`,
    [projectId, archived, names.kinds, names.name, names.limit],
  )
  return rows.map((it) => it.value)
}
