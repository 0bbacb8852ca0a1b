import type { Queries } from '../database.ts'
import type { ArchivedProject, ArchiveRow } from './read.ts'
import type { ArchiveTable, Column } from './tables.ts'

/** The columns of a project that are looked up first: what an archive may not share with anything in the target. */
const unique = {
  experiments: { column: 'key', sql: 'SELECT key AS taken FROM experiments WHERE key = ANY($1::text[])' },
  experiment_models: { column: 'id', sql: 'SELECT id AS taken FROM experiment_models WHERE id = ANY($1::text[])' },
  experiment_calls: { column: 'id', sql: 'SELECT id AS taken FROM experiment_calls WHERE id = ANY($1::text[])' },
  artifacts: { column: 'id', sql: 'SELECT id AS taken FROM artifacts WHERE id = ANY($1::text[])' },
  artifact_versions: { column: 'id', sql: 'SELECT id AS taken FROM artifact_versions WHERE id = ANY($1::text[])' },
  logged_models: { column: 'id', sql: 'SELECT id AS taken FROM logged_models WHERE id = ANY($1::text[])' },
  project_views: { column: 'id', sql: 'SELECT id AS taken FROM views WHERE id = ANY($1::text[])' },
  experiment_views: { column: 'id', sql: 'SELECT id AS taken FROM views WHERE id = ANY($1::text[])' },
} as const

/** The first id among rows of an archive that something else in this server has. */
export async function findTakenId(
  queries: Queries,
  table: ArchiveTable,
  rows: ArchiveRow[],
): Promise<string | undefined> {
  if (!Object.hasOwn(unique, table.name)) return undefined
  const { column, sql } = unique[table.name as keyof typeof unique]
  return (await queries.row<{ taken: string }>(`${sql} LIMIT 1`, [rows.map((it) => it[column])]))?.taken
}

/** Whether the id of a project, or its name in the workspace, is taken. */
export async function findTakenProject(
  queries: Queries,
  workspaceId: string,
  { id, name }: { id: string; name: string },
): Promise<'id' | 'name' | undefined> {
  const found = await queries.row<{ taken: 'id' | 'name' }>(
    `SELECT CASE WHEN id = $2 THEN 'id' ELSE 'name' END AS taken FROM projects
     WHERE id = $2 OR (workspace_id = $1 AND name = $3) ORDER BY taken DESC LIMIT 1`,
    [workspaceId, id, name],
  )
  return found?.taken
}

/** The first name of an artifact that the workspace has already. */
export async function findTakenArtifact(queries: Queries, workspaceId: string, names: unknown[]) {
  const sql = 'SELECT name FROM artifacts WHERE workspace_id = $1 AND name = ANY($2::text[]) LIMIT 1'
  return (await queries.row<{ name: string }>(sql, [workspaceId, names]))?.name
}

/** What an archive refers to, as it is in this server. */
export type Targets = {
  workspaceId: string
  projectId: string
  /** By their places in the archive. */
  experimentIds: bigint[]
  userId(name: string): string
  objectKey(number: number): string
}

/** Inserts the project itself. Fails with a unique violation when its id, or its name in the workspace, is taken. */
export async function insertProject(
  queries: Queries,
  { workspaceId, userId }: Targets,
  { id, name, description, isPublic, archived, notes, owner, createdAt, updatedAt }: ArchivedProject,
): Promise<void> {
  await queries.row(
    `INSERT INTO projects (id, workspace_id, owner_id, name, description, is_public, archived, notes, created_at, updated_at)
     VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9::timestamptz, $10::timestamptz)`,
    [id, workspaceId, userId(owner), name, description, isPublic, archived, notes, createdAt, updatedAt],
  )
}

/** Inserts rows of an archive, in their order. */
export async function insertRows(
  queries: Queries,
  { name, table = name, columns, given = [] }: ArchiveTable,
  rows: ArchiveRow[],
  targets: Targets,
): Promise<void> {
  const givenValues = { project_id: targets.projectId, workspace_id: targets.workspaceId }
  const inserted = rows.map((row) => {
    const values: ArchiveRow = Object.fromEntries(given.map((it) => [it, givenValues[it]]))
    for (const column of columns) {
      const value = row[column.name]
      values[column.name] = value === null ? null : toStored(column, value, targets)
    }
    return values
  })
  const types = [
    ...given.map((it) => [it, it === 'workspace_id' ? 'uuid' : 'text'] as const),
    ...columns.map((it) => [it.name, typeOf(it)] as const),
  ]
  const names = types.map(([it]) => it).join(', ')
  await queries.row(
    `INSERT INTO ${table} (${names}) OVERRIDING SYSTEM VALUE
     SELECT ${names} FROM ROWS FROM (json_to_recordset($1::json) AS (${types.map((it) => it.join(' ')).join(', ')}))
       WITH ORDINALITY AS given(${names}, place_given) ORDER BY place_given`,
    [JSON.stringify(inserted)],
  )
}

function toStored(column: Column, value: unknown, { experimentIds, userId, objectKey }: Targets): unknown {
  if (column.kind === 'experiment') return String(experimentIds[value as number])
  if (column.kind === 'user') return userId(value as string)
  if (column.kind === 'object') return objectKey(value as number)
  return value
}

function typeOf({ kind }: Column): string {
  if (kind === 'int64' || kind === 'experiment') return 'bigint'
  if (kind === 'float64') return 'float8'
  if (kind === 'time') return 'timestamptz'
  if (kind === 'user') return 'uuid'
  if (kind === 'texts') return 'text[]'
  return kind === 'boolean' ? 'boolean' : 'text'
}

/** Objects that rows refer to now are not orphaned any more. @returns false when one of them was freed meanwhile */
export async function keepObjects(queries: Queries, objectKeys: string[]): Promise<boolean> {
  const sql = 'DELETE FROM loose_objects WHERE object_key = ANY($1::text[]) RETURNING 1'
  return (await queries.rows(sql, [objectKeys])).length === objectKeys.length
}
