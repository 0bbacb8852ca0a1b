import { mayReadOfWorkspace, mayUse, type Viewer } from '../accounts/visibility.ts'
import type { Queries } from '../database.ts'
import { modelColumns, type RegistryModel } from './models.ts'

/** A registered model as a list shows it. */
export type ListedModel = RegistryModel & {
  /** The highest; null when there is none. */
  latestVersion: string | null
  /** Each stage with the highest version that has it, by name. */
  stages: { stage: string; version: string }[]
  /** Whether a model of this name reports to the workspace; false for those who may not see that. */
  isMonitored: boolean
}

type Search = {
  workspaceName: string
  /** A part of the name, of the description or of a stage, in any case; empty: all. */
  text: string
  order: 'name' | 'lastUpdated'
  skip: number
  limit: number
}

/** A condition on a model `m` and its workspace `w`: whoever may change it sees that a model of this name is monitored. */
const isMonitored = `(${mayUse('w')} AND EXISTS (SELECT 1 FROM monitored_models o
  WHERE o.workspace_id = m.workspace_id AND o.name = m.name))`

const orders = { name: 'm.name, m.id', lastUpdated: 'm.updated_at_ms DESC, m.id' }

/** The registered models of a workspace that the viewer may see and that have a text; and how many there are in all. */
export async function searchRegistryModels(
  queries: Queries,
  { viewerId, organizationId }: Viewer,
  { workspaceName, text, order, skip, limit }: Search,
): Promise<{ models: ListedModel[]; total: number }> {
  const from = `FROM registry_models m JOIN workspaces w ON w.id = m.workspace_id JOIN users u ON u.id = m.user_id
    WHERE ${mayReadOfWorkspace('m', 'w')} AND w.name = $3 AND w.organization_id = $2
      AND ($4 = '' OR strpos(lower(m.name), lower($4)) > 0 OR strpos(lower(m.description), lower($4)) > 0
        OR EXISTS (SELECT 1 FROM registry_versions v, unnest(v.stages) AS stage
          WHERE v.model_id = m.id AND strpos(lower(stage), lower($4)) > 0))`
  const values = [viewerId, organizationId, workspaceName, text]
  const models = await queries.rows<ListedModel>(
    `SELECT ${modelColumns}, ${isMonitored} AS "isMonitored",
       (SELECT v.version FROM registry_versions v WHERE v.model_id = m.id
        ORDER BY v.precedence DESC, v.place DESC LIMIT 1) AS "latestVersion",
       coalesce((SELECT json_agg(json_build_object('stage', s.stage, 'version', s.version) ORDER BY s.stage) FROM (
         SELECT DISTINCT ON (stage) stage, v.version FROM registry_versions v, unnest(v.stages) AS stage
         WHERE v.model_id = m.id ORDER BY stage, v.precedence DESC, v.place DESC) s), '[]') AS stages
     ${from} ORDER BY ${orders[order]} OFFSET $5 LIMIT $6`,
    [...values, skip, limit],
  )
  const counted = await queries.row<{ total: number }>(`SELECT count(*)::int AS total ${from}`, values)
  return { models, total: counted?.total ?? 0 }
}

/** Whether a model of the name of this registered one reports to its workspace, as far as the viewer may see that. */
export async function isModelMonitored(queries: Queries, { viewerId }: Viewer, modelId: string): Promise<boolean> {
  const row = await queries.row<{ isMonitored: boolean }>(
    `SELECT ${isMonitored} AS "isMonitored" FROM registry_models m JOIN workspaces w ON w.id = m.workspace_id
     WHERE m.id = $2`,
    [viewerId, modelId],
  )
  return row?.isMonitored ?? false
}
