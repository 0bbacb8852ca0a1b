import type { Filter } from '../../clickhouse/monitoring/segment-reader.ts'
import type { Queries } from '../database.ts'

/** A saved filter on the events of a model. */
export type Segment = {
  id: string
  name: string
  filters: Filter[]
  userName: string
  createdAtMs: number
}

/** Per model. */
export const segmentsMax = 100

type OfModel = { workspaceId: string; modelName: string }

const isModel = 'md5(model_name) = md5($2) AND model_name = $2'
const columns = 'id, name, filters, user_name AS "userName", created_at_ms::float8 AS "createdAtMs"'

/**
 * Stores a segment.
 *
 * @returns its id; or what stands in the way: another one of this name, or `segmentsMax` of them
 */
export async function insertSegment(
  queries: Queries,
  {
    workspaceId,
    modelName,
    name,
    filters,
    userName,
    nowMs,
  }: OfModel & Omit<Segment, 'id' | 'createdAtMs'> & { nowMs: number },
): Promise<{ id: string } | 'taken' | 'full'> {
  const made = await queries.row<{ id: string }>(
    `INSERT INTO segments (workspace_id, model_name, name, filters, user_name, created_at_ms)
     SELECT $1, $2, $3, $4, $5, $6
     WHERE (SELECT count(*) FROM segments WHERE workspace_id = $1 AND ${isModel}) < $7
     ON CONFLICT (workspace_id, md5(model_name), name) DO NOTHING RETURNING id`,
    [workspaceId, modelName, name, JSON.stringify(filters), userName, nowMs, segmentsMax],
  )
  if (made) return made
  return (await findSegment(queries, { workspaceId, modelName }, name)) ? 'taken' : 'full'
}

/** The segments of a model, by name. */
export async function listSegments(queries: Queries, { workspaceId, modelName }: OfModel): Promise<Segment[]> {
  return await queries.rows<Segment>(
    `SELECT ${columns} FROM segments WHERE workspace_id = $1 AND ${isModel} ORDER BY name COLLATE "C"`,
    [workspaceId, modelName],
  )
}

export async function findSegment(
  queries: Queries,
  { workspaceId, modelName }: OfModel,
  name: string,
): Promise<Segment | undefined> {
  return await queries.row<Segment>(
    `SELECT ${columns} FROM segments WHERE workspace_id = $1 AND ${isModel} AND name = $3`,
    [workspaceId, modelName, name],
  )
}

/** @returns the deleted segment, with its model; undefined when the workspace has none of this id */
export async function deleteSegment(
  queries: Queries,
  workspaceId: string,
  id: string,
): Promise<{ name: string; modelName: string } | undefined> {
  return await queries.row(
    'DELETE FROM segments WHERE workspace_id = $1 AND id = $2 RETURNING name, model_name AS "modelName"',
    [workspaceId, id],
  )
}
