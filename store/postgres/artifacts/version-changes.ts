import { parseSemver, toPrecedence } from '../../registry/semver.ts'
import type { Database, Queries } from '../database.ts'
import { ArtifactConflict, type ArtifactState } from './state.ts'
import { latestAlias } from './versions.ts'

type NewVersion = {
  experiment: { id: bigint; key: string; projectId: string }
  userId: string
  artifactName: string
  artifactType: string | undefined
  isPublic: boolean | undefined
  description: string | undefined
  /** Undefined: the next major version. */
  version: string | undefined
  metadata: string | undefined
  tags: string[]
  aliases: string[]
  nowMs: number
}

type Opened = { artifactId: string; versionId: string; previousVersion: string | null; version: string }

const typeDefault = 'unknown'

/**
 * Opens a version of an artifact. Creates the artifact when the workspace has none of this name; otherwise updates the fields
 * that are given.
 *
 * @throws ArtifactConflict
 */
export async function openArtifactVersion(database: Database, given: NewVersion): Promise<Opened> {
  const { experiment, userId, artifactName, artifactType, isPublic, description } = given
  return await database.transaction(async (queries) => {
    const artifact = (await queries.row<{ id: string }>(
      `INSERT INTO artifacts (workspace_id, project_id, experiment_key, owner_id, name, type, is_public, description)
       SELECT p.workspace_id, p.id, $2, $3, $4, coalesce($5, '${typeDefault}'), coalesce($6, false), $7
       FROM projects p WHERE p.id = $1
       ON CONFLICT (workspace_id, name) DO UPDATE SET type = coalesce($5, artifacts.type),
         is_public = coalesce($6, artifacts.is_public), description = coalesce($7, artifacts.description)
       RETURNING id`,
      [
        experiment.projectId,
        experiment.key,
        userId,
        artifactName,
        artifactType ?? null,
        isPublic ?? null,
        description ?? null,
      ],
    )) as { id: string }
    const taken = await queries.rows<{ version: string; isDeleted: boolean }>(
      `SELECT version, deleted_at IS NOT NULL AS "isDeleted" FROM artifact_versions WHERE artifact_id = $1
       ORDER BY place DESC`,
      [artifact.id],
    )
    const same = taken.find((it) => it.version === given.version)
    if (same) throw new ArtifactConflict(same.isDeleted ? 'versionWasDeleted' : 'versionExists')
    const version = given.version ?? nextMajor(taken.map((it) => it.version))
    const opened = (await queries.row<{ id: string }>(
      `INSERT INTO artifact_versions
         (artifact_id, version, experiment_id, experiment_key, owner_id, metadata, tags, created_at_ms)
       VALUES ($1, $2, $3, $4, $5, $6, $7, $8) RETURNING id`,
      [
        artifact.id,
        version,
        experiment.id,
        experiment.key,
        userId,
        given.metadata ?? null,
        [...new Set(given.tags)],
        given.nowMs,
      ],
    )) as { id: string }
    await insertAliases(queries, opened.id, given.aliases)
    const previousVersion = taken.find((it) => !it.isDeleted)?.version ?? null
    return { artifactId: artifact.id, versionId: opened.id, previousVersion, version }
  })
}

/** Deleted versions count: their numbers are never used again. */
function nextMajor(versions: string[]): string {
  const parsed = versions.map(parseSemver).filter((it) => it !== undefined)
  const [highest] = parsed.toSorted((a, b) => (toPrecedence(a) < toPrecedence(b) ? 1 : -1))
  return `${highest === undefined ? 1 : BigInt(highest.major) + 1n}.0.0`
}

async function insertAliases(queries: Queries, versionId: string, aliases: string[]) {
  const own = aliases.filter((it) => it.toLowerCase() !== latestAlias.toLowerCase())
  await queries.row(
    'INSERT INTO artifact_aliases (artifact_version_id, alias) SELECT DISTINCT $1, unnest($2::text[]) ON CONFLICT DO NOTHING',
    [versionId, own],
  )
}

/** Moves the aliases of a version to it: other closed versions lose them. */
async function moveAliases(queries: Queries, versionId: string) {
  await queries.row(
    `DELETE FROM artifact_aliases o USING artifact_versions v, artifact_versions mine
     WHERE mine.id = $1 AND v.artifact_id = mine.artifact_id AND v.id <> mine.id AND v.state = 'CLOSED'
       AND o.artifact_version_id = v.id
       AND o.alias IN (SELECT alias FROM artifact_aliases WHERE artifact_version_id = $1)`,
    [versionId],
  )
}

/** Locks a version's artifact, so that nothing else changes it, then the version, so that no file comes or goes. */
async function lockVersion(queries: Queries, versionId: string): Promise<ArtifactState> {
  await queries.row(
    'SELECT 1 FROM artifacts WHERE id = (SELECT artifact_id FROM artifact_versions WHERE id = $1) FOR UPDATE',
    [versionId],
  )
  const row = await queries.row<{ state: ArtifactState }>(
    'SELECT state FROM artifact_versions WHERE id = $1 AND deleted_at IS NULL FOR UPDATE',
    [versionId],
  )
  if (!row) throw new ArtifactConflict('versionUnknown')
  return row.state
}

/**
 * Sets the state of an open version. Closing it copies its files to `artifact_files` and moves its aliases to it.
 *
 * @throws ArtifactConflict
 */
export async function updateArtifactState(
  database: Database,
  versionId: string,
  { state, isPublic }: { state: ArtifactState; isPublic: boolean | undefined },
): Promise<void> {
  await database.transaction(async (queries) => {
    if ((await lockVersion(queries, versionId)) !== 'OPEN') throw new ArtifactConflict('stateFinal')
    await queries.row('UPDATE artifact_versions SET state = $2 WHERE id = $1', [versionId, state])
    if (isPublic !== undefined) {
      await queries.row(
        'UPDATE artifacts SET is_public = $2 WHERE id = (SELECT artifact_id FROM artifact_versions WHERE id = $1)',
        [versionId, isPublic],
      )
    }
    if (state !== 'CLOSED') return
    const copied = `place, file_name, type, content_type, size, sha256, object_key, link, step, context, metadata, tags,
      grouping_name, created_at_ms`
    await queries.row(
      `INSERT INTO artifact_files (artifact_version_id, asset_id, ${copied})
       SELECT artifact_version_id, id, ${copied} FROM assets WHERE artifact_version_id = $1 FOR KEY SHARE`,
      [versionId],
    )
    await moveAliases(queries, versionId)
  })
}

type Labels = { aliases: string[] | undefined; tags: string[] | undefined; metadata: string | undefined }

/**
 * Changes the labels of a version, also of a closed one. A list that is given replaces the stored one.
 *
 * @throws ArtifactConflict
 */
export async function updateArtifactLabels(
  database: Database,
  versionId: string,
  { aliases, tags, metadata }: Labels,
): Promise<void> {
  await database.transaction(async (queries) => {
    const state = await lockVersion(queries, versionId)
    await queries.row(
      'UPDATE artifact_versions SET tags = coalesce($2, tags), metadata = coalesce($3, metadata) WHERE id = $1',
      [versionId, tags ? [...new Set(tags)] : null, metadata ?? null],
    )
    if (!aliases) return
    await queries.row('DELETE FROM artifact_aliases WHERE artifact_version_id = $1', [versionId])
    await insertAliases(queries, versionId, aliases)
    if (state === 'CLOSED') await moveAliases(queries, versionId)
  })
}

/** Deletes a version and its files. Its number is never used again. */
export async function deleteArtifactVersion(database: Database, versionId: string): Promise<void> {
  await database.transaction(async (queries) => {
    await lockVersion(queries, versionId)
    await queries.row('UPDATE artifact_versions SET deleted_at = now() WHERE id = $1', [versionId])
    await queries.row('DELETE FROM artifact_aliases WHERE artifact_version_id = $1', [versionId])
    await queries.row('DELETE FROM artifact_files WHERE artifact_version_id = $1', [versionId])
    await queries.row('DELETE FROM assets WHERE artifact_version_id = $1', [versionId])
  })
}
