import type { Queries } from '../database.ts'
import { type Experiment, experimentColumns, experimentsWithPlace } from './experiments.ts'
import type { ValueKind } from './values.ts'

type ValueName = { kind: ValueKind; name: string }

/** What is known of a run `e` itself. */
export const runColumns = `e.id, e.key, e.name, u.user_name AS "userName", p.id AS "projectId", p.name AS "projectName",
  w.name AS "workspaceName", e.file_path AS "filePath", e.start_time_ms AS "startTimeMs",
  e.end_time_ms AS "endTimeMs", e.active_at_ms AS "activeAtMs", e.alive_at_ms AS "aliveAtMs",
  e.reported_status AS "reportedStatus", e.stop_requested AS "stopRequested", e.archived, e.has_crashed AS "hasCrashed", e.error, false AS "isWritable",
  '{}'::json AS limits, '{}'::text[] AS "throttleReasons"`
export const runsWithPlace = `FROM experiments e JOIN projects p ON p.id = e.project_id JOIN workspaces w ON w.id = p.workspace_id
  JOIN users u ON u.id = e.user_id`
/** Of the project $1, archived as $2 says. */
const isOfProject = `(e.project_id = $1 OR e.id = ANY(ARRAY(SELECT experiment_id FROM experiment_symlinks WHERE project_id = $1)))
  AND e.deleted_at IS NULL AND e.archived = $2`

export type RunPlace = { startTimeMs: bigint; id: bigint }

/**
 * The newest runs of a project, from behind a place on, and how many it has: what its table shows first.
 */
export async function listNewestRuns(
  queries: Queries,
  projectId: string,
  archived: boolean,
  { after, limit }: { after: RunPlace | undefined; limit: number },
): Promise<{ runs: Experiment[]; total: number }> {
  const [runs, [counted]] = await Promise.all([
    queries.rows<Experiment>(
      `SELECT ${runColumns} ${runsWithPlace}
       WHERE ${isOfProject} AND ($3::bigint IS NULL OR (e.start_time_ms, e.id) < ($3, $4))
       ORDER BY e.start_time_ms DESC, e.id DESC LIMIT $5`,
      [projectId, archived, after?.startTimeMs ?? null, after?.id ?? null, limit],
    ),
    queries.rows<{ total: number }>(`SELECT count(*)::int AS total FROM experiments e WHERE ${isOfProject}`, [
      projectId,
      archived,
    ]),
  ])
  return { runs, total: counted?.total ?? 0 }
}

type ValuesOfRun = Partial<Record<ValueKind, Record<string, string>>>

/**
 * Parameters and others of the first of some runs: of as many (`taken`) as have `bytesMax` bytes of them together, and of one at least.
 */
export async function listValuesOfRuns(
  queries: Queries,
  experimentIds: bigint[],
  values: ValueName[],
  bytesMax: number,
): Promise<{ values: Map<bigint, ValuesOfRun>; taken: number }> {
  if (values.length === 0 || experimentIds.length === 0) return { values: new Map(), taken: experimentIds.length }
  const params = [experimentIds, values.map((it) => it.kind), values.map((it) => it.name)]
  // To know the size of a long value does not read it: it lies apart from its row.
  const shortMax = Math.floor(bytesMax / (experimentIds.length * values.length))
  const short = await queries.rows<FoundValues & { hasLong: boolean }>(
    `SELECT experiment_id AS id, kind, bool_or(octet_length(value) > $4) AS "hasLong",
       json_object_agg(name, CASE WHEN octet_length(value) <= $4 THEN value END) AS content FROM experiment_values
     WHERE experiment_id = ANY($1) AND (kind, name) IN (SELECT * FROM unnest($2::text[], $3::text[]))
     GROUP BY experiment_id, kind`,
    [...params, shortMax],
  )
  if (!short.some((it) => it.hasLong)) return { values: toValuesOfRuns(short), taken: experimentIds.length }
  const rows = await queries.rows<FoundValues & { taken: number | null }>(
    `WITH found AS MATERIALIZED (
       SELECT asked.place, v.experiment_id AS id, v.kind, v.name, v.value
       FROM unnest($1::bigint[]) WITH ORDINALITY AS asked(id, place) JOIN experiment_values v ON v.experiment_id = asked.id
       WHERE (v.kind, v.name) IN (SELECT * FROM unnest($2::text[], $3::text[]))
     ), sized AS (
       SELECT place, sum(sum(octet_length(value))) OVER (ORDER BY place) - sum(octet_length(value)) AS before FROM found GROUP BY place
     )
     SELECT id, kind, json_object_agg(name, value) AS content,
       (SELECT min(place)::int - 1 FROM sized WHERE before >= $4) AS taken
     FROM found WHERE place IN (SELECT place FROM sized WHERE before < $4) GROUP BY id, kind`,
    [...params, bytesMax],
  )
  return { values: toValuesOfRuns(rows), taken: rows[0]?.taken ?? experimentIds.length }
}

type FoundValues = { id: bigint; kind: ValueKind; content: Record<string, string> }

function toValuesOfRuns(rows: FoundValues[]): Map<bigint, ValuesOfRun> {
  const values = new Map<bigint, ValuesOfRun>()
  for (const { id, kind, content } of rows) values.set(id, { ...values.get(id), [kind]: content })
  return values
}

/** The tags of some runs. */
export async function listTagsOfRuns(queries: Queries, experimentIds: bigint[]): Promise<Map<bigint, string[]>> {
  const rows = await queries.rows<{ id: bigint; tags: string[] }>(
    `SELECT experiment_id AS id, array_agg(tag ORDER BY added_at, tag) AS tags FROM experiment_tags
     WHERE experiment_id = ANY($1) GROUP BY experiment_id`,
    [experimentIds],
  )
  return new Map(rows.map((it) => [it.id, it.tags]))
}

/** The runs of a project that were active since a time, without a check of permissions: the caller must have made it. */
export async function listActiveRuns(queries: Queries, projectId: string, sinceMs: number): Promise<Experiment[]> {
  const nobody = null
  return await queries.rows<Experiment>(
    `SELECT ${experimentColumns} ${experimentsWithPlace}
     WHERE (e.project_id = $2 OR e.id = ANY(ARRAY(SELECT experiment_id FROM experiment_symlinks WHERE project_id = $2)))
       AND e.deleted_at IS NULL AND e.active_at_ms >= $3`,
    [nobody, projectId, sinceMs],
  )
}
