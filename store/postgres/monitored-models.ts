import type { Queries } from './database.ts'

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
