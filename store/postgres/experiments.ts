import type { Database, Queries } from './database.ts'

/** Everything that metadata tells. Times are milliseconds since the Unix epoch. */
export type Experiment = {
  id: bigint
  key: string
  name: string
  userName: string
  projectId: string
  projectName: string
  workspaceName: string
  filePath: string | null
  startTimeMs: bigint
  endTimeMs: bigint | null
  activeAtMs: bigint
  aliveAtMs: bigint | null
  stopRequested: boolean
  archived: boolean
}

const experimentColumns = `e.id, e.key, e.name, u.user_name AS "userName", p.id AS "projectId", p.name AS "projectName",
  w.name AS "workspaceName", e.file_path AS "filePath", e.start_time_ms AS "startTimeMs", e.end_time_ms AS "endTimeMs",
  e.active_at_ms AS "activeAtMs", e.alive_at_ms AS "aliveAtMs", e.stop_requested AS "stopRequested", e.archived`

const visibleExperiments = `FROM experiments e JOIN projects p ON p.id = e.project_id
  JOIN workspaces w ON w.id = p.workspace_id JOIN users u ON u.id = e.user_id
  JOIN workspace_members m ON m.workspace_id = w.id AND m.user_id = $1`

type NewExperiment = { key: string; projectId: string; userId: string; name: string; nowMs: number }

/** Makes an experiment with its one other, `Name`. Fails with a unique violation when the key is taken. */
export async function insertExperiment(queries: Queries, experiment: NewExperiment): Promise<void> {
  await queries.row(
    `WITH made AS (
       INSERT INTO experiments (key, project_id, user_id, name, start_time_ms, active_at_ms)
       VALUES ($1, $2, $3, $4, $5, $5) RETURNING id)
     INSERT INTO experiment_values (experiment_id, kind, name, value, timestamp_ms)
     SELECT id, 'other', 'Name', $4, $5 FROM made`,
    [experiment.key, experiment.projectId, experiment.userId, experiment.name, experiment.nowMs],
  )
}

/** The id of an experiment that the user may write to; absent and foreign look the same. */
export async function findExperimentId(queries: Queries, userId: string, key: string): Promise<bigint | undefined> {
  const row = await queries.row<{ id: bigint }>(
    `SELECT e.id FROM experiments e JOIN projects p ON p.id = e.project_id
     JOIN workspace_members m ON m.workspace_id = p.workspace_id AND m.user_id = $1 WHERE e.key = $2`,
    [userId, key],
  )
  return row?.id
}

/** An experiment that the user may see; absent and foreign look the same. */
export async function findExperiment(queries: Queries, userId: string, key: string): Promise<Experiment | undefined> {
  return await queries.row<Experiment>(`SELECT ${experimentColumns} ${visibleExperiments} WHERE e.key = $2`, [
    userId,
    key,
  ])
}

type ExperimentPage = { userId: string; projectId: string; archived: boolean; afterId: bigint; limit: number }

/** Experiments of a project in the order they were made, from after `afterId`. */
export async function listExperiments(queries: Queries, page: ExperimentPage): Promise<Experiment[]> {
  return await queries.rows<Experiment>(
    `SELECT ${experimentColumns} ${visibleExperiments}
     WHERE p.id = $2 AND e.archived = $3 AND e.id > $4 ORDER BY e.id LIMIT $5`,
    [page.userId, page.projectId, page.archived, page.afterId, page.limit],
  )
}

export type ValueKind = 'parameter' | 'other'

export type LastValue = { name: string; value: string; step: bigint | null; timestampMs: bigint }

type NewValue = { name: string; value: string; step?: number | bigint; timestampMs: number | bigint }

/** Keeps a parameter's or other's value; the one that came last stays. The other `Name` also renames the experiment. */
export async function upsertValue(
  database: Database,
  experimentId: bigint,
  kind: ValueKind,
  { name, value, step, timestampMs }: NewValue,
): Promise<void> {
  const upsert = (queries: Queries) =>
    queries.row(
      `INSERT INTO experiment_values (experiment_id, kind, name, value, step, timestamp_ms) VALUES ($1, $2, $3, $4, $5, $6)
       ON CONFLICT (experiment_id, kind, name)
       DO UPDATE SET value = excluded.value, step = excluded.step, timestamp_ms = excluded.timestamp_ms`,
      [experimentId, kind, name, value, step ?? null, timestampMs],
    )
  if (kind === 'parameter' || name !== 'Name') {
    await upsert(database)
    return
  }
  await database.transaction(async (queries) => {
    await queries.row('UPDATE experiments SET name = $2 WHERE id = $1', [experimentId, value])
    await upsert(queries)
  })
}

export async function listValues(queries: Queries, experimentId: bigint, kind: ValueKind): Promise<LastValue[]> {
  return await queries.rows<LastValue>(
    `SELECT name, value, step, timestamp_ms AS "timestampMs" FROM experiment_values
     WHERE experiment_id = $1 AND kind = $2 ORDER BY name`,
    [experimentId, kind],
  )
}

/** Adds tags; those that are there stay. */
export async function insertTags(queries: Queries, experimentId: bigint, tags: string[]): Promise<void> {
  await queries.row(
    `INSERT INTO experiment_tags (experiment_id, tag, added_at)
     SELECT $1, tag, clock_timestamp() + place * interval '1 microsecond'
     FROM unnest($2::text[]) WITH ORDINALITY AS added(tag, place) ON CONFLICT DO NOTHING`,
    [experimentId, tags],
  )
}

export async function listTags(queries: Queries, experimentId: bigint): Promise<string[]> {
  const rows = await queries.rows<{ tag: string }>(
    'SELECT tag FROM experiment_tags WHERE experiment_id = $1 ORDER BY added_at, tag',
    [experimentId],
  )
  return rows.map((it) => it.tag)
}

/** Signs of life: when an experiment was last kept alive, and when it last did anything. */
export type Sign = { experimentId: bigint; aliveAtMs?: number; activeAtMs: number }

/** Keeps signs of life of many experiments in one statement; a time never goes back. */
export async function updateSigns(queries: Queries, signs: Sign[]): Promise<void> {
  await queries.row(
    `UPDATE experiments e SET
       active_at_ms = greatest(e.active_at_ms, s.active),
       alive_at_ms = greatest(e.alive_at_ms, s.alive)
     FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) AS s(id, active, alive) WHERE e.id = s.id`,
    [signs.map((it) => it.experimentId), signs.map((it) => it.activeAtMs), signs.map((it) => it.aliveAtMs ?? null)],
  )
}

type Times = { startTimeMs: number | bigint | undefined; endTimeMs: number | bigint | undefined }

/** Sets the start, the end or both; what is absent stays. */
export async function updateTimes(queries: Queries, experimentId: bigint, times: Times): Promise<void> {
  await queries.row(
    `UPDATE experiments SET start_time_ms = coalesce($2, start_time_ms), end_time_ms = coalesce($3, end_time_ms)
     WHERE id = $1`,
    [experimentId, times.startTimeMs ?? null, times.endTimeMs ?? null],
  )
}
