import type { Queries } from '../database.ts'

/** The JSON text that a visualization stored in a project; undefined when there is none yet. */
export async function findVizStore(
  queries: Queries,
  projectId: string,
  instanceId: string,
): Promise<string | undefined> {
  const row = await queries.row<{ content: string }>(
    'SELECT content FROM viz_stores WHERE project_id = $1 AND instance_id = $2',
    [projectId, instanceId],
  )
  return row?.content
}

/** Replaces the text of a visualization. False when the project has been deleted meanwhile. */
export async function upsertVizStore(
  queries: Queries,
  projectId: string,
  instanceId: string,
  content: string,
): Promise<boolean> {
  const row = await queries.row(
    `INSERT INTO viz_stores (project_id, instance_id, content)
     SELECT id, $2, $3 FROM projects WHERE id = $1 AND workspace_id IS NOT NULL FOR KEY SHARE
     ON CONFLICT (project_id, instance_id) DO UPDATE SET content = excluded.content RETURNING 1`,
    [projectId, instanceId, content],
  )
  return row !== undefined
}
