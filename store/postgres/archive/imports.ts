import type { Queries } from '../database.ts'

/** After so long without a sign of it an import has ended: its process was killed. */
const silentHoursMax = 24

/** The project of an archive that a workspace has imported. */
export async function findImported(
  queries: Queries,
  workspaceId: string,
  archiveId: string,
): Promise<{ projectId: string; projectName: string } | undefined> {
  return await queries.row(
    `SELECT p.id AS "projectId", p.name AS "projectName" FROM imports i JOIN projects p ON p.id = i.project_id
     WHERE i.workspace_id = $1 AND i.archive_id = $2 AND p.workspace_id = $1 AND p.deleted_at IS NULL`,
    [workspaceId, archiveId],
  )
}

/** Begins an import. Earlier ones of the archive that did not end are given up. */
export async function beginImport(
  queries: Queries,
  { workspaceId, archiveId, experiments }: { workspaceId: string; archiveId: string; experiments: number },
): Promise<{ importId: string; experimentIds: bigint[] }> {
  await queries.row('UPDATE imports SET is_given_up = true WHERE archive_id = $1 AND project_id IS NULL', [archiveId])
  const row = await queries.row<{ importId: string; experimentIds: string[] }>(
    `INSERT INTO imports (workspace_id, archive_id, experiment_ids)
     SELECT $1, $2, ARRAY(SELECT nextval(pg_get_serial_sequence('experiments', 'id')) AS id FROM generate_series(1, $3) ORDER BY id)
     RETURNING id AS "importId", experiment_ids::text[] AS "experimentIds"`,
    [workspaceId, archiveId, experiments],
  )
  const { importId, experimentIds } = row as { importId: string; experimentIds: string[] }
  return { importId, experimentIds: experimentIds.map(BigInt) }
}

/** Tells that an import goes on. @returns false when it was given up, so that it must end */
export async function touchImport(queries: Queries, importId: string): Promise<boolean> {
  const sql = 'UPDATE imports SET seen_at = now() WHERE id = $1 AND NOT is_given_up RETURNING 1'
  return (await queries.row(sql, [importId])) !== undefined
}

export async function giveUpImport(queries: Queries, importId: string): Promise<void> {
  await queries.row('UPDATE imports SET is_given_up = true WHERE id = $1 AND project_id IS NULL', [importId])
}

/** Tells that an import is done, in the transaction that has inserted its project. @returns false when it was given up */
export async function finishImport(queries: Queries, importId: string, projectId: string): Promise<boolean> {
  const sql = `UPDATE imports SET project_id = $2, experiment_ids = '{}' WHERE id = $1 AND NOT is_given_up RETURNING 1`
  return (await queries.row(sql, [importId, projectId])) !== undefined
}

/** Imports that ended without a project, with the experiments that they stored rows of. */
export async function listGivenUpImports(queries: Queries): Promise<{ importId: string; experimentIds: bigint[] }[]> {
  await queries.row(
    `UPDATE imports SET is_given_up = true
     WHERE project_id IS NULL AND NOT is_given_up AND seen_at < now() - make_interval(hours => $1)`,
    [silentHoursMax],
  )
  const rows = await queries.rows<{ importId: string; experimentIds: string[] }>(
    `SELECT id AS "importId", experiment_ids::text[] AS "experimentIds" FROM imports WHERE is_given_up`,
  )
  return rows.map(({ importId, experimentIds }) => ({ importId, experimentIds: experimentIds.map(BigInt) }))
}

export async function deleteImport(queries: Queries, importId: string): Promise<void> {
  await queries.row('DELETE FROM imports WHERE id = $1 AND is_given_up', [importId])
}

/** The users of an organization among these names. */
export async function findUserIds(
  queries: Queries,
  organizationId: string,
  names: string[],
): Promise<Map<string, string>> {
  const rows = await queries.rows<{ name: string; id: string }>(
    `SELECT user_name AS name, id FROM users
     WHERE organization_id = $1 AND user_name = ANY($2::text[]) AND deleted_at IS NULL`,
    [organizationId, names],
  )
  return new Map(rows.map((it) => [it.name, it.id]))
}
