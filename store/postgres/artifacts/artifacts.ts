import { mayReadOfWorkspace, mayWrite, type Viewer } from '../accounts/visibility.ts'
import type { Database, Queries } from '../database.ts'
import { ArtifactConflict } from './state.ts'
import { bytesOf, newestClosed } from './versions.ts'

/**
 * Artifacts: named files of a workspace, in versions. An experiment opens a version, uploads its files as assets, and
 * closes it. A closed version never changes, even if its experiment is deleted. The lock on an artifact's row serializes
 * its changes.
 */
export type Artifact = {
  id: string
  name: string
  type: string
  projectId: string | null
  projectName: string | null
  workspaceId: string
  workspaceName: string
  experimentKey: string
  description: string | null
  metadata: string | null
  isPublic: boolean
  owner: string
  tags: string[]
  /** The newest closed version. */
  latestVersion: string | null
  /** Of all its versions. */
  bytes: bigint
  /** Whether the caller may change it, or only read it. */
  isWritable: boolean
}

/** The project that an artifact began in, unless it is deleted. */
const ofProject = 'FROM projects p WHERE p.id = a.project_id AND p.workspace_id IS NOT NULL'

const artifactColumns = `a.id, a.name, a.type, (SELECT p.id ${ofProject}) AS "projectId",
  (SELECT p.name ${ofProject}) AS "projectName", a.workspace_id AS "workspaceId", w.name AS "workspaceName", a.experiment_key AS "experimentKey", a.description, a.metadata, a.is_public AS "isPublic",
  o.user_name AS owner, a.tags, (SELECT l.version FROM artifact_versions l WHERE l.id = ${newestClosed}) AS "latestVersion",
  (SELECT coalesce(sum(${bytesOf('b')}), 0)::bigint FROM artifact_versions b
    WHERE b.artifact_id = a.id AND b.deleted_at IS NULL) AS bytes,
  ${mayWrite('w')} AS "isWritable"`

const visibleArtifacts = `FROM artifacts a JOIN workspaces w ON w.id = a.workspace_id JOIN users o ON o.id = a.owner_id
  WHERE ${mayReadOfWorkspace('a', 'w')}`

/** How a caller names an artifact. */
export type ArtifactReference =
  | { artifactId: string }
  | { versionId: string }
  | { workspaceName: string; artifactName: string }

/** An artifact that the viewer may see; absent and foreign look the same. */
export async function findArtifact(
  queries: Queries,
  viewer: Viewer,
  reference: ArtifactReference,
): Promise<Artifact | undefined> {
  const [condition, values] = toCondition(reference)
  return await queries.row<Artifact>(`SELECT ${artifactColumns} ${visibleArtifacts} AND ${condition}`, [
    viewer.viewerId,
    viewer.organizationId,
    ...values,
  ])
}

function toCondition(reference: ArtifactReference): [string, string[]] {
  if ('artifactId' in reference) return ['a.id = $3', [reference.artifactId]]
  if ('versionId' in reference) {
    return ['a.id = (SELECT artifact_id FROM artifact_versions WHERE id = $3)', [reference.versionId]]
  }
  return ['w.organization_id = $2 AND w.name = $3 AND a.name = $4', [reference.workspaceName, reference.artifactName]]
}

type ArtifactFilter = { workspaceName: string; projectName?: string | undefined; type?: string | undefined }

/** The artifacts of a workspace that the viewer may see, by name. */
export async function listArtifacts(queries: Queries, viewer: Viewer, filter: ArtifactFilter): Promise<Artifact[]> {
  return await queries.rows<Artifact>(
    `SELECT ${artifactColumns} ${visibleArtifacts} AND w.organization_id = $2 AND w.name = $3
       AND ($4::text IS NULL OR a.type = $4)
       AND ($5::text IS NULL OR EXISTS (SELECT 1 ${ofProject} AND p.name = $5))
     ORDER BY a.name`,
    [viewer.viewerId, viewer.organizationId, filter.workspaceName, filter.type ?? null, filter.projectName ?? null],
  )
}

type Details = {
  type: string | undefined
  tags: string[] | undefined
  metadata: string | undefined
  ofVersion: { version: string; metadata: string | undefined } | undefined
}

/**
 * Changes the fields of an artifact, and the metadata of one of its versions.
 *
 * @throws ArtifactConflict
 */
export async function updateArtifact(
  database: Database,
  artifactId: string,
  { type, tags, metadata, ofVersion }: Details,
): Promise<void> {
  await database.transaction(async (queries) => {
    await queries.row(
      `UPDATE artifacts SET type = coalesce($2, type), tags = coalesce($3, tags), metadata = coalesce($4, metadata)
       WHERE id = $1`,
      [artifactId, type ?? null, tags ? [...new Set(tags)] : null, metadata ?? null],
    )
    if (!ofVersion) return
    const row = await queries.row(
      `UPDATE artifact_versions SET metadata = coalesce($3, metadata)
       WHERE artifact_id = $1 AND version = $2 AND deleted_at IS NULL RETURNING id`,
      [artifactId, ofVersion.version, ofVersion.metadata ?? null],
    )
    if (!row) throw new ArtifactConflict('versionUnknown')
  })
}

/** Deletes an artifact with all its versions and their files. */
export async function deleteArtifact(queries: Queries, artifactId: string): Promise<void> {
  await queries.row('DELETE FROM artifacts WHERE id = $1', [artifactId])
}
