import { mayReadExperiment, toViewerValues, type Viewer } from '../accounts/visibility.ts'
import type { Queries } from '../database.ts'
import { type Experiment, experimentColumns, experimentsWithPlace } from '../experiments/experiments.ts'
import type { RunStore } from '../experiments/values.ts'
import { toTagName } from './tag-names.ts'

/** An experiment as a run of MLflow. */
export type MlflowRun = Experiment & { isDeleted: boolean; artifactLocation: string | null }

const columns = `${experimentColumns}, e.deleted_at IS NOT NULL AS "isDeleted", p.artifact_location AS "artifactLocation"`

/** An experiment that the viewer may see, deleted or not. */
export async function findMlflowRun(queries: Queries, viewer: Viewer, key: string): Promise<MlflowRun | undefined> {
  return await queries.row(
    `SELECT ${columns} ${experimentsWithPlace} WHERE e.key = $4 AND ${mayReadExperiment('e', 'p', 'w')}`,
    [...toViewerValues(viewer), key],
    'mlflow run by key',
  )
}

/** Experiments by id, in no order. Callers have checked who asks. */
export async function listMlflowRuns(queries: Queries, ids: bigint[]): Promise<MlflowRun[]> {
  const nobody = null
  return await queries.rows(`SELECT ${columns} ${experimentsWithPlace} WHERE e.id = ANY($2)`, [nobody, ids])
}

export const runStatuses = ['RUNNING', 'SCHEDULED', 'FINISHED', 'FAILED', 'KILLED'] as const
export type RunStatus = (typeof runStatuses)[number]

/** Stores the status that a client reports. A run that is over ended at `endTimeMs`, or now. */
export async function updateRunStatus(
  queries: Queries,
  experimentId: bigint,
  { status, endTimeMs, nowMs }: { status: RunStatus; endTimeMs: number | bigint | undefined; nowMs: number },
): Promise<void> {
  const goesOn = status === 'RUNNING' || status === 'SCHEDULED'
  await queries.row(
    `UPDATE experiments SET reported_status = $2, has_crashed = $3, alive_at_ms = $4,
       not_alive_at_ms = CASE WHEN $5 THEN not_alive_at_ms ELSE greatest(not_alive_at_ms, $7) END,
       end_time_ms = CASE WHEN $5 THEN $6 ELSE coalesce($6, $7) END,
       active_at_ms = greatest(active_at_ms, $7) WHERE id = $1`,
    // A run that was killed is one that is not heard of any more.
    [
      experimentId,
      goesOn ? status : null,
      status === 'FAILED',
      status === 'KILLED' ? 0 : null,
      goesOn,
      endTimeMs,
      nowMs,
    ],
  )
}

export type RunDataset = {
  name: string
  digest: string
  sourceType: string
  source: string
  schema: string | null
  profile: string | null
  tags: Record<string, string>
}

/** Stores the datasets and models that a run read; a dataset that is known gets the new tags too. @throws ValuesFull */
export async function upsertRunInputs(
  { database, room }: RunStore,
  experimentId: bigint,
  datasets: RunDataset[],
  models: NewRunModel[],
): Promise<void> {
  await room.take(
    experimentId,
    datasets.map(({ name, digest, source, schema, profile, tags }) => ({
      name,
      texts: [digest, source, schema ?? '', profile ?? '', JSON.stringify(tags)],
    })),
  )
  await database.transaction(async (queries) => {
    await upsertRunDatasets(queries, experimentId, datasets)
    await upsertRunModels(queries, experimentId, models)
  })
}

async function upsertRunDatasets(queries: Queries, experimentId: bigint, datasets: RunDataset[]): Promise<void> {
  for (const it of datasets) {
    await queries.row(
      `INSERT INTO run_datasets AS d (experiment_id, name, digest, source_type, source, schema, profile, tags)
       VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (experiment_id, name, digest) DO UPDATE
         SET tags = (d.tags::jsonb || excluded.tags::jsonb)::text`,
      [experimentId, it.name, it.digest, it.sourceType, it.source, it.schema, it.profile, JSON.stringify(it.tags)],
    )
  }
}

type NewRunModel = { modelId: string; isOutput: boolean; step: number | bigint }

type RunModel = NewRunModel & { step: bigint }

/** Stores which models a run read or made. */
export async function upsertRunModels(queries: Queries, experimentId: bigint, models: NewRunModel[]): Promise<void> {
  for (const it of models) {
    await queries.row(
      `INSERT INTO run_models (experiment_id, model_id, is_output, step) VALUES ($1, $2, $3, $4)
       ON CONFLICT (experiment_id, model_id, is_output) DO UPDATE SET step = excluded.step`,
      [experimentId, it.modelId, it.isOutput, it.step],
    )
  }
}

/** What Postgres keeps of a run: keys and values by name, datasets and models in no order. */
export type RunDetails = {
  params: Map<string, string>
  tags: Map<string, string>
  datasets: RunDataset[]
  models: RunModel[]
}

export async function listRunDetails(queries: Queries, ids: bigint[]): Promise<Map<bigint, RunDetails>> {
  const found = new Map<bigint, RunDetails>(
    ids.map((id) => [id, { params: new Map(), tags: new Map(), datasets: [], models: [] }]),
  )
  if (ids.length === 0) return found
  const [values, datasets, models] = await Promise.all([
    queries.rows<{ id: bigint; kind: 'parameter' | 'other'; name: string; value: string }>(
      `SELECT experiment_id AS id, kind, name, value FROM experiment_values WHERE experiment_id = ANY($1)
       ORDER BY experiment_id, kind, name`,
      [ids],
    ),
    queries.rows<RunDataset & { id: bigint }>(
      `SELECT experiment_id AS id, name, digest, source_type AS "sourceType", source, schema, profile, tags::json AS tags
       FROM run_datasets WHERE experiment_id = ANY($1) ORDER BY name, digest`,
      [ids],
    ),
    queries.rows<RunModel & { id: bigint }>(
      `SELECT experiment_id AS id, model_id AS "modelId", is_output AS "isOutput", step FROM run_models
       WHERE experiment_id = ANY($1) ORDER BY model_id`,
      [ids],
    ),
  ])
  for (const { id, kind, name, value } of values) {
    if (kind === 'parameter') found.get(id)?.params.set(name, value)
    else found.get(id)?.tags.set(toTagName(name), value)
  }
  for (const { id, ...dataset } of datasets) found.get(id)?.datasets.push(dataset)
  for (const { id, ...model } of models) found.get(id)?.models.push(model)
  return found
}

/** The runs of projects that read a dataset, by what a field of it is. As Postgres writes a list of ids. */
export async function listRunsWithDataset(
  queries: Queries,
  projectIds: readonly string[],
  field: 'name' | 'digest' | 'context',
): Promise<{ value: string; ids: string }[]> {
  const value = { name: 'd.name', digest: 'd.digest', context: "d.tags::json ->> 'mlflow.data.context'" }[field]
  return await queries.rows(
    `SELECT ${value} AS value, array_agg(e.id)::text AS ids FROM run_datasets d JOIN experiments e ON e.id = d.experiment_id
     WHERE e.project_id = ANY($1) AND ${value} IS NOT NULL GROUP BY 1`,
    [projectIds],
  )
}
