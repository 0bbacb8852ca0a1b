import type { Queries } from '../database.ts'

/** A model that reports from production, or a data set. `id` is what its rows in ClickHouse carry. */
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

/** The models of a workspace by name, those after a name. */
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
 * A model by its name, which is made when it is not there.
 *
 * @returns undefined when it would be one more than the workspace may have
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

/** How many more of the events of a model were accepted, came again, or were refused by a limit. */
export type ModelCountedMore = { modelId: bigint; accepted: number; duplicates: number; throttled: number }

/** Adds to the counters of many models in one statement. Models that are gone are passed over. */
export async function addToModelCounters(queries: Queries, counted: ModelCountedMore[]): Promise<void> {
  await queries.row(
    `INSERT INTO monitored_model_counters AS c (model_id, accepted, duplicates, throttled)
     SELECT more.id, more.accepted, more.duplicates, more.throttled
     FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[]) AS more(id, accepted, duplicates, throttled)
     JOIN monitored_models m ON m.id = more.id ORDER BY more.id
     ON CONFLICT (model_id) DO UPDATE SET accepted = c.accepted + excluded.accepted,
       duplicates = c.duplicates + excluded.duplicates, throttled = c.throttled + excluded.throttled`,
    [
      counted.map((it) => it.modelId),
      counted.map((it) => it.accepted),
      counted.map((it) => it.duplicates),
      counted.map((it) => it.throttled),
    ],
  )
}

export type ModelCounters = { modelId: bigint; accepted: bigint; duplicates: bigint; throttled: bigint }

/** What was counted for some models; those that nothing was counted for are absent. */
export async function listModelCounters(queries: Queries, modelIds: bigint[]): Promise<ModelCounters[]> {
  return await queries.rows<ModelCounters>(
    `SELECT model_id AS "modelId", accepted, duplicates, throttled FROM monitored_model_counters
     WHERE model_id = ANY($1::bigint[])`,
    [modelIds],
  )
}
