import { mayReadExperiment, toViewerValues, type Viewer } from '../accounts/visibility.ts'
import type { Queries } from '../database.ts'

/** An experiment, as the rows of an export name it. */
export type ExportedRun = { id: bigint; key: string; name: string; project: string }

const columns = 'e.id, e.key, e.name, p.name AS project'
const withPlace = `FROM experiments e JOIN projects p ON p.id = e.project_id JOIN workspaces w ON w.id = p.workspace_id`

/** Those of the experiments that the viewer may see, by id. */
export async function listRunsByKey(queries: Queries, viewer: Viewer, keys: string[]): Promise<ExportedRun[]> {
  return await queries.rows<ExportedRun>(
    `SELECT ${columns} ${withPlace}
     WHERE e.key = ANY($4) AND e.deleted_at IS NULL AND ${mayReadExperiment('e', 'p', 'w')} ORDER BY e.id`,
    [...toViewerValues(viewer), keys],
  )
}

/** The names of all parameters of the experiments. */
export async function listParameterNames(queries: Queries, experimentIds: bigint[]): Promise<string[]> {
  const rows = await queries.rows<{ name: string }>(
    `SELECT DISTINCT name FROM experiment_values WHERE experiment_id = ANY($1) AND kind = 'parameter'`,
    [experimentIds],
  )
  return rows.map((it) => it.name).toSorted()
}

/** The parameters of the experiments, by name. */
export async function listParameters(
  queries: Queries,
  experimentIds: bigint[],
): Promise<Map<bigint, Map<string, string>>> {
  const rows = await queries.rows<{ id: bigint; names: string[]; values: string[] }>(
    `SELECT experiment_id AS id, array_agg(name ORDER BY name) AS names, array_agg(value ORDER BY name) AS values
     FROM experiment_values WHERE experiment_id = ANY($1) AND kind = 'parameter' GROUP BY experiment_id`,
    [experimentIds],
  )
  return new Map(
    rows.map(({ id, names, values }) => [id, new Map(names.map((name, at) => [name, values[at] as string]))]),
  )
}
