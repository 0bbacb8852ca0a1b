import type { GivenLimits } from '../../limits.ts'
import type { PointForms } from '../../point-forms.ts'
import {
  hasProject,
  isShownIn,
  isWithheld,
  mayReadExperiment,
  mayReadProject,
  mayWriteProject,
  type Refusal,
  toViewerValues,
  type Viewer,
} from '../accounts/visibility.ts'
import type { Queries } from '../database.ts'

/** The metadata of an experiment. Times are milliseconds since the Unix epoch. */
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
  /** What a client without keep-alives said last of a run that goes on; null once it said that it ended. */
  reportedStatus: 'RUNNING' | 'SCHEDULED' | null
  stopRequested: boolean
  archived: boolean
  /** The end of the run as a client reported it. */
  hasCrashed: boolean | null
  error: string | null
  /** Whether the caller may change it, or only read it. */
  isWritable: boolean
  /** The limits of its workspace and project. The project's take precedence. */
  limits: GivenLimits
  /** Which limits rejected data of it within the last `throttledForMs`. */
  throttleReasons: string[]
} & PointForms

/** A run without keep-alives that logged nothing for so long counts as lost. */
export const silentMsMax = 24 * 60 * 60 * 1_000

/** An experiment counts as throttled for this long after a limit last rejected data of it. */
export const throttledForMs = 60_000

export const formColumns = 'e.has_rows AS "hasRows", e.has_chunks AS "hasChunks"'

export const experimentColumns = `e.id, e.key, e.name, u.user_name AS "userName", p.id AS "projectId", p.name AS "projectName",
  w.name AS "workspaceName", e.file_path AS "filePath", e.start_time_ms AS "startTimeMs", e.end_time_ms AS "endTimeMs",
  e.active_at_ms AS "activeAtMs", e.alive_at_ms AS "aliveAtMs", e.reported_status AS "reportedStatus", e.stop_requested AS "stopRequested", e.archived,
  e.has_crashed AS "hasCrashed", e.error, ${mayWriteProject('p', 'w')} AS "isWritable",
  w.limits || p.limits AS limits, ARRAY(SELECT t.reason FROM experiment_throttles t WHERE t.experiment_id = e.id
    AND t.last_at_ms > extract(epoch FROM now()) * 1000 - ${throttledForMs} ORDER BY t.reason) AS "throttleReasons", ${formColumns}`

export const experimentsWithPlace = `FROM experiments e JOIN projects p ON p.id = e.project_id
  JOIN workspaces w ON w.id = p.workspace_id JOIN users u ON u.id = e.user_id`

type NewExperiment = { key: string; projectId: string; userId: string; name: string; nowMs: number }

/**
 * Creates an experiment with one other, `Name`. Whether it takes chunks of points is decided here, once, so that a repeated request
 * has the same form whoever takes it. It has no points in either form yet, unless an earlier version may add rows. Fails with a unique violation when the key is taken.
 */
export async function insertExperiment(queries: Queries, experiment: NewExperiment): Promise<void> {
  await queries.row(
    `WITH made AS (
       INSERT INTO experiments (key, project_id, user_id, name, start_time_ms, active_at_ms, takes_chunks, has_rows)
       VALUES ($1, $2, $3, $4, $5, $5, now() >= (SELECT since FROM point_chunks), now() < (SELECT since FROM point_rows)) RETURNING id)
     INSERT INTO experiment_values (experiment_id, kind, name, value, timestamp_ms)
     SELECT id, 'other', 'Name', $4, $5 FROM made`,
    [experiment.key, experiment.projectId, experiment.userId, experiment.name, experiment.nowMs],
  )
}

/** The fields that a write needs of its experiment. */
export type WritableExperiment = Pick<Experiment, 'id' | 'limits' | keyof PointForms> & {
  /** Whether batches of its points may be stored as chunks. */
  takesChunks: boolean
  workspaceId?: string
  organizationId?: string
  organizationLimits?: GivenLimits
}

/** An experiment that the caller may write to, or why not. */
export type SoughtExperiment = WritableExperiment & { workspaceName: string; refusal: Refusal | null }

/** The experiments that the caller may write to, or know why not, by key. Absent and foreign ones are left out. */
export async function findWritableExperiments(
  queries: Queries,
  viewerId: string,
  keys: string[],
): Promise<Map<string, SoughtExperiment>> {
  // Each rule is asked for once: to plan them is most of the time.
  const rows = await queries.rows<
    WritableExperiment & { key: string; workspaceName: string; refusal: Refusal | 'foreign' | null }
  >(
    `SELECT e.key, e.id, e.takes_chunks AS "takesChunks", ${formColumns}, w.limits || p.limits AS limits, w.name AS "workspaceName", w.id AS "workspaceId",
       o.id AS "organizationId", o.limits AS "organizationLimits",
       CASE WHEN ${mayWriteProject('p', 'w')} THEN NULL WHEN ${hasProject('p', 'w')} THEN 'role'
         WHEN ${isWithheld('w')} THEN 'withheld' ELSE 'foreign' END AS refusal
     FROM experiments e JOIN projects p ON p.id = e.project_id JOIN workspaces w ON w.id = p.workspace_id
       JOIN organizations o ON o.id = w.organization_id
     WHERE e.key = ANY($2) AND e.deleted_at IS NULL`,
    [viewerId, keys],
    'writable experiments by key',
  )
  return new Map(
    rows.flatMap(({ key, refusal, ...experiment }) =>
      refusal === 'foreign' ? [] : [[key, { ...experiment, refusal }]],
    ),
  )
}

const columnOfForm = { hasRows: 'has_rows', hasChunks: 'has_chunks' } as const

/** Notes that experiments have points stored in a form, or will have before long. Returns how many were not noted before. */
export async function noteForm(queries: Queries, form: keyof PointForms, ids: bigint[]): Promise<number> {
  const column = columnOfForm[form]
  const sql = `UPDATE experiments SET ${column} = true WHERE id = ANY($1) AND NOT ${column} RETURNING id`
  return (await queries.rows(sql, [ids])).length
}

/** The next experiments by id, deleted ones too, that no point in a form is noted of. */
export async function listWithoutForm(
  queries: Queries,
  form: keyof PointForms,
  { afterId, limit }: { afterId: bigint; limit: number },
): Promise<bigint[]> {
  const sql = `SELECT id FROM experiments WHERE NOT ${columnOfForm[form]} AND id > $1 ORDER BY id LIMIT $2`
  return (await queries.rows<{ id: bigint }>(sql, [afterId, limit])).map((it) => it.id)
}

/** An experiment that the viewer may see; absent, deleted and foreign look the same. */
export async function findExperiment(queries: Queries, viewer: Viewer, key: string): Promise<Experiment | undefined> {
  return await queries.row<Experiment>(
    `SELECT ${experimentColumns} ${experimentsWithPlace}
     WHERE e.key = $4 AND e.deleted_at IS NULL AND ${mayReadExperiment('e', 'p', 'w')}`,
    [...toViewerValues(viewer), key],
    'experiment by key',
  )
}

/** Experiments by id, without a check of permissions: the caller must have made it. Deleted ones are left out. */
export async function listExperimentsById(queries: Queries, ids: bigint[]): Promise<Experiment[]> {
  const nobody = null
  return await queries.rows<Experiment>(
    `SELECT ${experimentColumns} ${experimentsWithPlace} WHERE e.id = ANY($2) AND e.deleted_at IS NULL`,
    [nobody, ids],
    'experiments by id',
  )
}

/** A condition on the experiments `e` of a page and their order. Its values are `$1` to `$8`. */
const ofPage = ({ sort }: ExperimentPage) => `${isShownIn('e', '$4')}
       AND EXISTS (SELECT 1 FROM projects listed JOIN workspaces lw ON lw.id = listed.workspace_id
         WHERE listed.id = $4 AND ${mayReadProject('listed', 'lw')})
       AND e.deleted_at IS NULL AND e.archived = $5 AND e.id > $6
     ORDER BY ${orderOfPage(sort)} LIMIT $7 OFFSET $8`

export const orderOfPage = (sort: ExperimentSort | undefined) =>
  `${sort ? `${timeColumns[sort.by]} ${sort.isDescending ? 'DESC' : 'ASC'}, ` : ''}e.id`

const timeColumns = { startTime: 'e.start_time_ms', endTime: 'coalesce(e.end_time_ms, e.active_at_ms)' }

const toPageValues = (viewer: Viewer, page: ExperimentPage) => [
  ...toViewerValues(viewer),
  page.projectId,
  page.archived,
  page.afterId,
  page.limit,
  page.offset ?? 0,
]

export type ExperimentSort = { by: 'startTime' | 'endTime'; isDescending: boolean }

export type ExperimentPage = {
  projectId: string
  archived: boolean
  afterId: bigint
  limit: number
  offset?: number
  /** The order in which they were made, when absent. */
  sort?: ExperimentSort | undefined
}

/** Experiments of a project, and those symlinked into it, from after `afterId`. */
export async function listExperiments(queries: Queries, viewer: Viewer, page: ExperimentPage): Promise<Experiment[]> {
  return await queries.rows<Experiment>(
    `SELECT ${experimentColumns} ${experimentsWithPlace} WHERE ${ofPage(page)}`,
    toPageValues(viewer, page),
  )
}

/**
 * Stops, archives, deletes or restores an experiment. Only `restored` applies to a deleted one.
 *
 * @returns false when there is none, or when the caller may not change it
 */
export async function updateCondition(
  queries: Queries,
  viewerId: string,
  key: string,
  condition: 'stopped' | 'archived' | 'deleted' | 'restored',
): Promise<boolean> {
  const change = {
    stopped: 'stop_requested = true',
    archived: 'archived = true',
    deleted: 'deleted_at = now()',
    restored: 'archived = false, deleted_at = NULL',
  }[condition]
  const row = await queries.row(
    `UPDATE experiments e SET ${change} FROM projects p JOIN workspaces w ON w.id = p.workspace_id
     WHERE p.id = e.project_id AND e.key = $2 AND ${mayWriteProject('p', 'w')}
       ${condition === 'restored' ? '' : 'AND e.deleted_at IS NULL'} RETURNING e.id`,
    [viewerId, key],
  )
  return row !== undefined
}

/** Whether a client said that the run ended. */
export async function hasEnded(queries: Queries, experimentId: bigint): Promise<boolean> {
  const row = await queries.row<{ ended: boolean }>(
    'SELECT not_alive_at_ms IS NOT NULL AS ended FROM experiments WHERE id = $1',
    [experimentId],
  )
  return row?.ended ?? false
}

/** Forgets a request to stop. */
export async function clearStop(queries: Queries, experimentId: bigint): Promise<void> {
  await queries.row('UPDATE experiments SET stop_requested = false WHERE id = $1', [experimentId])
}

type Outcome = { isAlive: boolean; error: string | undefined; hasCrashed: boolean | undefined; nowMs: number }

/** Stores the run state that a client reports: running, or how it ended. */
export async function updateOutcome(queries: Queries, experimentId: bigint, outcome: Outcome): Promise<void> {
  await queries.row(
    `UPDATE experiments SET alive_at_ms = CASE WHEN $2 THEN greatest(alive_at_ms, $3) END, active_at_ms = $3,
       not_alive_at_ms = CASE WHEN $2 THEN not_alive_at_ms ELSE greatest(not_alive_at_ms, $3) END,
       error = coalesce($4, error), has_crashed = coalesce($5, has_crashed) WHERE id = $1`,
    [experimentId, outcome.isAlive, outcome.nowMs, outcome.error ?? null, outcome.hasCrashed ?? null],
  )
}

export async function updateFilePath(queries: Queries, experimentId: bigint, filePath: string): Promise<void> {
  await queries.row('UPDATE experiments SET file_path = $2 WHERE id = $1', [experimentId, filePath])
}

/** Moves experiments to another project. False, and nothing is moved, when that has been deleted meanwhile. */
export async function moveExperiments(queries: Queries, experimentIds: bigint[], projectId: string): Promise<boolean> {
  const target = await queries.row('SELECT 1 FROM projects WHERE id = $1 AND workspace_id IS NOT NULL FOR KEY SHARE', [
    projectId,
  ])
  if (!target) return false
  await queries.row('UPDATE experiments SET project_id = $2 WHERE id = ANY($1)', [experimentIds, projectId])
  // A symlink into its own project would list it twice.
  await queries.row('DELETE FROM experiment_symlinks WHERE experiment_id = ANY($1) AND project_id = $2', [
    experimentIds,
    projectId,
  ])
  // It stays where it is put, also when the deleted project that it came from is restored.
  await queries.row('DELETE FROM experiments_of_deleted_projects WHERE experiment_id = ANY($1)', [experimentIds])
  return true
}

/** Symlinks experiments into another project. */
export async function insertSymlinks(queries: Queries, experimentIds: bigint[], projectId: string): Promise<void> {
  await queries.row(
    `INSERT INTO experiment_symlinks (project_id, experiment_id)
     SELECT $2, id FROM experiments WHERE id = ANY($1) AND project_id <> $2 ON CONFLICT DO NOTHING`,
    [experimentIds, projectId],
  )
}

/** When an experiment last sent a keep-alive, and when it last did anything. */
export type Heartbeat = { experimentId: bigint; aliveAtMs?: number; activeAtMs: number }

/** Stores the heartbeats of many experiments in one statement; a time never goes back. */
export async function updateHeartbeats(queries: Queries, heartbeats: Heartbeat[]): Promise<void> {
  await queries.row(
    `UPDATE experiments e SET
       active_at_ms = greatest(e.active_at_ms, s.active),
       alive_at_ms = CASE WHEN s.alive > coalesce(e.not_alive_at_ms, 0) THEN greatest(e.alive_at_ms, s.alive)
         ELSE e.alive_at_ms END
     FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) AS s(id, active, alive) WHERE e.id = s.id`,
    [
      heartbeats.map((it) => it.experimentId),
      heartbeats.map((it) => it.activeAtMs),
      heartbeats.map((it) => it.aliveAtMs ?? null),
    ],
  )
}

type Times = { startTimeMs: number | bigint | undefined; endTimeMs: number | bigint | undefined }

/** Sets the start, the end or both. */
export async function updateTimes(queries: Queries, experimentId: bigint, times: Times): Promise<void> {
  await queries.row(
    `UPDATE experiments SET start_time_ms = coalesce($2, start_time_ms), end_time_ms = coalesce($3, end_time_ms)
     WHERE id = $1`,
    [experimentId, times.startTimeMs ?? null, times.endTimeMs ?? null],
  )
}

/** Up to `limit` experiments that were deleted before this time (ms since the Unix epoch). */
export async function listDeletedBefore(queries: Queries, timeMs: number, limit: number): Promise<bigint[]> {
  const rows = await queries.rows<{ id: bigint }>(
    'SELECT id FROM experiments WHERE deleted_at <= to_timestamp($1 / 1000.0) ORDER BY deleted_at LIMIT $2',
    [timeMs, limit],
  )
  return rows.map((it) => it.id)
}

/** Purges deleted experiments with all their rows. An experiment that was restored meanwhile stays. */
export async function deleteExperiments(queries: Queries, experimentIds: bigint[]): Promise<void> {
  await queries.row(
    `WITH gone AS (DELETE FROM experiments WHERE id = ANY($1) AND deleted_at IS NOT NULL RETURNING id)
     DELETE FROM artifact_versions v USING gone WHERE v.experiment_id = gone.id AND v.state <> 'CLOSED'`,
    [experimentIds],
  )
}
