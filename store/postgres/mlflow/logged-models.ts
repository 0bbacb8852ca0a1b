import { mayReadExperiment, toViewerValues, type Viewer } from '../accounts/visibility.ts'
import { lockAssets, modelElement } from '../assets/assets.ts'
import type { Database, Queries } from '../database.ts'
import type { RunStore } from '../experiments/values.ts'

/**
 * Models that runs log, as newer clients have them: a model of an experiment with an id, parameters, tags and metrics of its own.
 * Times are ms since the Unix epoch.
 */
export type LoggedModel = {
  id: string
  name: string
  /** The model of the experiment that has its files. */
  groupingName: string
  modelType: string | null
  /** False: nobody said which run made it, and its experiment is its own. */
  isOfRun: boolean
  status: LoggedModelStatus
  params: Record<string, string>
  tags: Record<string, string>
  createdAtMs: bigint
  updatedAtMs: bigint
  isDeleted: boolean
  experimentId: bigint
  runKey: string
  projectId: string
  artifactLocation: string | null
}

export const loggedModelStatuses = ['LOGGED_MODEL_PENDING', 'LOGGED_MODEL_READY', 'LOGGED_MODEL_UPLOAD_FAILED'] as const
type LoggedModelStatus = (typeof loggedModelStatuses)[number]

const columns = `l.id, l.name, l.grouping_name AS "groupingName", l.model_type AS "modelType", l.is_of_run AS "isOfRun",
  l.status, l.params::json AS params, l.tags::json AS tags, l.created_at_ms AS "createdAtMs",
  l.updated_at_ms AS "updatedAtMs", l.deleted_at IS NOT NULL AS "isDeleted", e.id AS "experimentId", e.key AS "runKey",
  p.id AS "projectId", p.artifact_location AS "artifactLocation"`

const from = `FROM logged_models l JOIN experiments e ON e.id = l.experiment_id JOIN projects p ON p.id = e.project_id
  JOIN workspaces w ON w.id = p.workspace_id`

/** A model that the viewer may see, deleted or not. */
export async function findLoggedModel(queries: Queries, viewer: Viewer, id: string): Promise<LoggedModel | undefined> {
  return await queries.row(`SELECT ${columns} ${from} WHERE l.id = $4 AND ${mayReadExperiment('e', 'p', 'w')}`, [
    ...toViewerValues(viewer),
    id,
  ])
}

/** The models of the runs of projects, without deleted ones. Callers have checked who asks. */
export async function listLoggedModels(queries: Queries, projectIds: string[]): Promise<LoggedModel[]> {
  return await queries.rows(
    `SELECT ${columns} ${from} WHERE p.id = ANY($1) AND l.deleted_at IS NULL AND e.deleted_at IS NULL ORDER BY l.id`,
    [projectIds],
  )
}

type NewLoggedModel = Pick<
  LoggedModel,
  'id' | 'experimentId' | 'name' | 'modelType' | 'isOfRun' | 'params' | 'tags'
> & {
  nowMs: number
}

/** Creates a model. Its files are under its name, unless the experiment has a model of this name: then its id is added. @throws ValuesFull */
export async function insertLoggedModel({ database, room }: RunStore, model: NewLoggedModel): Promise<void> {
  const { id, experimentId, name, modelType, isOfRun, params, tags, nowMs } = model
  await room.take(experimentId, toGiven(params, tags))
  await database.transaction(async (queries) => {
    await lockAssets(queries, experimentId)
    await queries.row(
      `INSERT INTO logged_models
         (id, experiment_id, name, grouping_name, model_type, is_of_run, status, params, tags, created_at_ms, updated_at_ms)
       SELECT $1, $2, $3, CASE WHEN EXISTS (SELECT 1 FROM experiment_models WHERE experiment_id = $2 AND name = $3)
           OR EXISTS (SELECT 1 FROM logged_models WHERE experiment_id = $2 AND grouping_name = $3)
         THEN $3 || '-' || $1 ELSE $3 END, $4, $5, 'LOGGED_MODEL_PENDING', $6, $7, $8, $8`,
      [id, experimentId, name, modelType, isOfRun, JSON.stringify(params), JSON.stringify(tags), nowMs],
    )
  })
}

type Changes = {
  status?: LoggedModelStatus
  /** Added to those that are there. */
  params?: Record<string, string>
  /** Added to those that are there. */
  tags?: Record<string, string>
}

/** @throws ValuesFull */
export async function updateLoggedModel(
  { database, room }: RunStore,
  { id, experimentId }: LoggedModel,
  { status, params = {}, tags = {} }: Changes,
  nowMs: number,
): Promise<void> {
  await room.take(experimentId, toGiven(params, tags))
  await database.row(
    `UPDATE logged_models SET status = coalesce($2, status), params = (params::jsonb || $3::jsonb)::text,
       tags = (tags::jsonb || $4::jsonb)::text, updated_at_ms = $5 WHERE id = $1`,
    [id, status ?? null, JSON.stringify(params), JSON.stringify(tags), nowMs],
  )
}

const toGiven = (params: Record<string, string>, tags: Record<string, string>) =>
  [...Object.entries(params), ...Object.entries(tags)].map(([name, value]) => ({ name, texts: [value] }))

/** False when it has no such tag. */
export async function deleteLoggedModelTag(queries: Queries, id: string, key: string, nowMs: number): Promise<boolean> {
  const row = await queries.row(
    `UPDATE logged_models SET tags = (tags::jsonb - $2::text)::text, updated_at_ms = $3
     WHERE id = $1 AND tags::jsonb ? $2::text RETURNING id`,
    [id, key, nowMs],
  )
  return row !== undefined
}

/** Deletes a model with its files; registered versions keep theirs. What is left says that it was there. */
export async function deleteLoggedModel(
  database: Database,
  { id, experimentId, groupingName }: LoggedModel,
  nowMs: number,
): Promise<void> {
  await database.transaction(async (queries) => {
    await lockAssets(queries, experimentId)
    await queries.row('UPDATE logged_models SET deleted_at = now(), updated_at_ms = $2 WHERE id = $1', [id, nowMs])
    await queries.row('DELETE FROM assets WHERE experiment_id = $1 AND type = $2 AND grouping_name = $3', [
      experimentId,
      modelElement,
      groupingName,
    ])
    await queries.row('DELETE FROM experiment_models WHERE experiment_id = $1 AND name = $2', [
      experimentId,
      groupingName,
    ])
  })
}

export type LoggedModelMetric = {
  modelId: string
  runKey: string
  name: string
  value: number
  step: bigint
  timestampMs: bigint
  datasetName: string
  datasetDigest: string
}

/** The metrics that runs measured of models, by name; the newest of each name last. */
export async function listLoggedModelMetrics(queries: Queries, modelIds: string[]): Promise<LoggedModelMetric[]> {
  return await queries.rows(
    `SELECT m.model_id AS "modelId", e.key AS "runKey", m.name, m.value, m.step, m.timestamp_ms AS "timestampMs",
       m.dataset_name AS "datasetName", m.dataset_digest AS "datasetDigest"
     FROM logged_model_metrics m JOIN experiments e ON e.id = m.experiment_id WHERE m.model_id = ANY($1)
     ORDER BY m.name, m.step, m.timestamp_ms`,
    [modelIds],
  )
}
