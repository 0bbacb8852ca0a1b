import type { Queries } from '../database.ts'
import { countMinute, minuteNow } from '../experiments/counters.ts'

/** A monitored model or a data set. Its rows in ClickHouse carry `id`. */
export type MonitoredModel = { id: bigint; name: string }

/** A model of a workspace by its name. */
export async function findMonitoredModel(
  queries: Queries,
  workspaceId: string,
  name: string,
): Promise<MonitoredModel | undefined> {
  return await queries.row<MonitoredModel>(
    'SELECT id, name FROM monitored_models WHERE workspace_id = $1 AND name = $2',
    [workspaceId, name],
  )
}

/** A model by its id, with the name of its workspace. */
export async function findMonitoredModelById(
  queries: Queries,
  id: bigint,
): Promise<(MonitoredModel & { workspaceName: string }) | undefined> {
  return await queries.row(
    `SELECT m.id, m.name, w.name AS "workspaceName" FROM monitored_models m JOIN workspaces w ON w.id = m.workspace_id
     WHERE m.id = $1`,
    [id],
  )
}

/** Where a model is; undefined when it was deleted. */
export async function findModelPlace(
  queries: Queries,
  id: bigint,
): Promise<{ workspaceId: string; modelName: string } | undefined> {
  return await queries.row(
    'SELECT workspace_id AS "workspaceId", name AS "modelName" FROM monitored_models WHERE id = $1',
    [id],
  )
}

/** The models and data sets of workspaces, by workspace and name. */
export async function listModelsOfWorkspaces(
  queries: Queries,
  { workspaceIds, limit }: { workspaceIds: string[]; limit: number },
): Promise<(MonitoredModel & { workspaceId: string })[]> {
  return await queries.rows(
    `SELECT id, name, workspace_id AS "workspaceId" FROM monitored_models WHERE workspace_id = ANY($1)
     ORDER BY workspace_id, name COLLATE "C" LIMIT $2`,
    [workspaceIds, limit],
  )
}

/** The models of a workspace after a name, ordered by name. */
export async function listMonitoredModels(
  queries: Queries,
  { workspaceId, afterName, limit }: { workspaceId: string; afterName: string; limit: number },
): Promise<MonitoredModel[]> {
  return await queries.rows<MonitoredModel>(
    `SELECT id, name FROM monitored_models WHERE workspace_id = $1 AND name COLLATE "C" > $2
     ORDER BY name COLLATE "C" LIMIT $3`,
    [workspaceId, afterName, limit],
  )
}

/**
 * Finds a model by name, or creates it.
 *
 * @returns undefined when the workspace has reached its limit of models
 */
export async function ensureMonitoredModel(
  queries: Queries,
  { workspaceId, name, modelsMax }: { workspaceId: string; name: string; modelsMax: number },
): Promise<MonitoredModel | undefined> {
  const known = await findMonitoredModel(queries, workspaceId, name)
  if (known) return known
  const made = await queries.row<MonitoredModel>(
    `INSERT INTO monitored_models (workspace_id, name, created_at_ms)
     SELECT $1, $2, $3 WHERE (SELECT count(*) FROM monitored_models WHERE workspace_id = $1) < $4
     ON CONFLICT (workspace_id, name) DO NOTHING RETURNING id, name`,
    [workspaceId, name, Date.now(), modelsMax],
  )
  return made ?? (await findMonitoredModel(queries, workspaceId, name))
}

/** The increase in a model's counts: accepted, duplicate and throttled events. */
export type ModelCountedMore = { modelId: bigint; accepted: number; duplicates: number; throttled: number }

/** Adds to the counters of many models in one statement. Deleted models are skipped. */
export async function addToModelCounters(queries: Queries, counted: ModelCountedMore[]): Promise<void> {
  await queries.row(
    `INSERT INTO monitored_model_counters AS c (model_id, accepted, duplicates, throttled, minute, this_minute)
     SELECT more.id, more.accepted, more.duplicates, more.throttled, ${minuteNow}, more.accepted
     FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[]) AS more(id, accepted, duplicates, throttled)
     JOIN monitored_models m ON m.id = more.id ORDER BY more.id
     ON CONFLICT (model_id) DO UPDATE SET accepted = c.accepted + excluded.accepted,
       duplicates = c.duplicates + excluded.duplicates, throttled = c.throttled + excluded.throttled,
       ${countMinute}`,
    [
      counted.map((it) => it.modelId),
      counted.map((it) => it.accepted),
      counted.map((it) => it.duplicates),
      counted.map((it) => it.throttled),
    ],
  )
}

export type ModelCounters = { modelId: bigint; accepted: bigint; duplicates: bigint; throttled: bigint }

/** The counters of models; a model without counts is absent. */
export async function listModelCounters(queries: Queries, modelIds: bigint[]): Promise<ModelCounters[]> {
  return await queries.rows<ModelCounters>(
    `SELECT model_id AS "modelId", accepted, duplicates, throttled FROM monitored_model_counters
     WHERE model_id = ANY($1::bigint[])`,
    [modelIds],
  )
}
