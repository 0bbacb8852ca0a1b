import type { PointForms } from '../../point-forms.ts'
import { mayReadExperiment, toViewerValues, type Viewer } from '../accounts/visibility.ts'
import type { Queries } from '../database.ts'
import { formColumns } from './experiments.ts'

export type ChartExperiment = {
  id: bigint
  key: string
  workspaceName: string
  startTimeMs: bigint
  parameters: Record<string, string>
} & PointForms

/**
 * Experiments that the viewer may see, each with the parameters asked for. Absent, deleted and foreign experiments are left
 * out.
 */
export async function listChartExperiments(
  queries: Queries,
  viewer: Viewer,
  keys: string[],
  parameterNames: string[],
): Promise<ChartExperiment[]> {
  const rows = await queries.rows<Omit<ChartExperiment, 'parameters'> & { names: string[]; values: string[] }>(
    `SELECT e.id, e.key, w.name AS "workspaceName", e.start_time_ms AS "startTimeMs", ${formColumns},
       ARRAY(SELECT v.name ${parametersOf}) AS names, ARRAY(SELECT v.value ${parametersOf}) AS values
     FROM experiments e JOIN projects p ON p.id = e.project_id JOIN workspaces w ON w.id = p.workspace_id
     WHERE e.key = ANY($4) AND e.deleted_at IS NULL AND ${mayReadExperiment('e', 'p', 'w')}`,
    [...toViewerValues(viewer), keys, parameterNames],
    'chart experiments by key',
  )
  return rows.map(({ names, values, ...it }) => {
    const parameters = Object.fromEntries(names.map((name, at) => [name, values[at] as string]))
    return { ...it, parameters }
  })
}

const parametersOf = `FROM experiment_values v
  WHERE v.experiment_id = e.id AND v.kind = 'parameter' AND v.name = ANY($5) ORDER BY v.name`
