import { mayReadOfWorkspace, mayUse, mayWrite, type Viewer } from '../accounts/visibility.ts'
import type { Queries } from '../database.ts'

/** The status of a version until it gets another; every workspace has it. */
export const firstStatus = 'None'

/** The statuses that versions of a workspace may have. */
export async function listRegistryStatuses(queries: Queries, workspaceId: string): Promise<string[]> {
  const row = await queries.row<{ statuses: string[] }>(
    'SELECT registry_statuses AS statuses FROM workspaces WHERE id = $1',
    [workspaceId],
  )
  return row?.statuses ?? [firstStatus]
}

/** Replaces the statuses of a workspace. Versions keep the status that they have. */
export async function updateRegistryStatuses(queries: Queries, workspaceId: string, statuses: string[]): Promise<void> {
  await queries.row('UPDATE workspaces SET registry_statuses = $2 WHERE id = $1', [workspaceId, statuses])
}

export type StatusConfiguration = {
  status: string
  isReviewRequired: boolean
  statusConfiguration: { key: string; value: string }[]
  comment: string | null
}

export type VersionFacts = {
  /** JSON text. */
  metadata: string
  statusConfiguration: StatusConfiguration | null
  /** Whether the caller may change it, or only read it. */
  isWritable: boolean
  /** Whether the caller has a role in the workspace. */
  isMember: boolean
}

/** The metadata and status configuration of a version that the viewer may see. */
export async function findVersionFacts(
  queries: Queries,
  { viewerId, organizationId }: Viewer,
  versionId: string,
): Promise<VersionFacts | undefined> {
  return await queries.row<VersionFacts>(
    `SELECT v.metadata, v.status_configuration AS "statusConfiguration", ${mayWrite('w')} AS "isWritable", ${mayUse('w')} AS "isMember" FROM registry_versions v JOIN registry_models m ON m.id = v.model_id JOIN workspaces w ON w.id = m.workspace_id
     WHERE v.id = $3 AND ${mayReadOfWorkspace('m', 'w')}`,
    [viewerId, organizationId, versionId],
  )
}

/** Replaces the metadata of a version: the JSON text of a list. */
export async function updateVersionMetadata(queries: Queries, versionId: string, metadata: string, nowMs: number) {
  await queries.row('UPDATE registry_versions SET metadata = $2, updated_at_ms = $3 WHERE id = $1', [
    versionId,
    metadata,
    nowMs,
  ])
}

export async function updateStatusConfiguration(
  queries: Queries,
  versionId: string,
  configuration: StatusConfiguration,
  nowMs: number,
) {
  await queries.row('UPDATE registry_versions SET status_configuration = $2, updated_at_ms = $3 WHERE id = $1', [
    versionId,
    configuration,
    nowMs,
  ])
}
