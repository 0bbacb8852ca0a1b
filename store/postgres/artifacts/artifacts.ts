import { parseSemver, toPrecedence } from '../../registry/semver.ts'
import { mayReadExperiment, mayReadOfWorkspace, mayWrite, toViewerValues, type Viewer } from '../accounts/visibility.ts'
import { type Asset, assetColumns } from '../assets/assets.ts'
import type { Database, Queries } from '../database.ts'
import { ArtifactConflict, type ArtifactState } from './state.ts'

/**
 * Artifacts: named files of a workspace, in versions. An experiment opens a version, uploads its files as assets, and closes
 * it; then they are the same for ever, whatever becomes of the experiment. Changes of one artifact happen one after the
 * other, by the lock on its row.
 */
export type Artifact = {
  id: string
  name: string
  type: string
  projectId: string | null
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
  /** Whether the caller may change it; else it may only be read. */
  isWritable: boolean
}

export type ArtifactVersion = {
  id: string
  version: string
  state: ArtifactState
  experimentKey: string
  owner: string
  metadata: string | null
  tags: string[]
  aliases: string[]
  createdAtMs: bigint
  bytes: bigint
}

/** The alias that the newest closed version has by itself. */
export const latestAlias = 'Latest'

const newestClosed = `(SELECT n.id FROM artifact_versions n WHERE n.artifact_id = a.id AND n.state = 'CLOSED'
  AND n.deleted_at IS NULL ORDER BY n.place DESC LIMIT 1)`

const bytesOf = (version: string) => `(CASE WHEN ${version}.state = 'CLOSED'
  THEN (SELECT coalesce(sum(f.size), 0) FROM artifact_files f WHERE f.artifact_version_id = ${version}.id)
  ELSE (SELECT coalesce(sum(f.size), 0) FROM assets f WHERE f.artifact_version_id = ${version}.id) END)`

const artifactColumns = `a.id, a.name, a.type, a.project_id AS "projectId", a.workspace_id AS "workspaceId",
  w.name AS "workspaceName", a.experiment_key AS "experimentKey", a.description, a.metadata, a.is_public AS "isPublic",
  o.user_name AS owner, a.tags, (SELECT l.version FROM artifact_versions l WHERE l.id = ${newestClosed}) AS "latestVersion",
  (SELECT coalesce(sum(${bytesOf('b')}), 0)::bigint FROM artifact_versions b
    WHERE b.artifact_id = a.id AND b.deleted_at IS NULL) AS bytes,
  ${mayWrite('w')} AS "isWritable"`

const visibleArtifacts = `FROM artifacts a JOIN workspaces w ON w.id = a.workspace_id JOIN users o ON o.id = a.owner_id
  WHERE ${mayReadOfWorkspace('a', 'w')}`

const versionColumns = `v.id, v.version, v.state, v.experiment_key AS "experimentKey", vo.user_name AS owner, v.metadata,
  v.tags, ARRAY(SELECT l.alias FROM artifact_aliases l WHERE l.artifact_version_id = v.id ORDER BY l.alias)
    || CASE WHEN v.id = ${newestClosed} THEN ARRAY['${latestAlias}'] ELSE ARRAY[]::text[] END AS aliases,
  v.created_at_ms AS "createdAtMs", ${bytesOf('v')}::bigint AS bytes`

const versionsOfArtifacts = `FROM artifact_versions v JOIN artifacts a ON a.id = v.artifact_id
  JOIN users vo ON vo.id = v.owner_id`

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
    viewer.userId,
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
       AND ($5::text IS NULL OR EXISTS (SELECT 1 FROM projects p WHERE p.id = a.project_id AND p.name = $5))
     ORDER BY a.name`,
    [viewer.userId, viewer.organizationId, filter.workspaceName, filter.type ?? null, filter.projectName ?? null],
  )
}

/** The versions of an artifact, newest first. */
export async function listArtifactVersions(queries: Queries, artifactId: string): Promise<ArtifactVersion[]> {
  return await queries.rows<ArtifactVersion>(
    `SELECT ${versionColumns} ${versionsOfArtifacts} WHERE a.id = $1 AND v.deleted_at IS NULL ORDER BY v.place DESC`,
    [artifactId],
  )
}

/** Which version is meant; with nothing given, the newest. */
export type VersionChoice = {
  versionId?: string | undefined
  version?: string | undefined
  alias?: string | undefined
  versionOrAlias?: string | undefined
}

/** The version that is meant: a closed one before one that is not, a newer one before an older one. */
export async function findArtifactVersion(
  queries: Queries,
  artifactId: string,
  { versionId, version, alias, versionOrAlias }: VersionChoice,
): Promise<ArtifactVersion | undefined> {
  const isLatest = [alias, versionOrAlias].some((it) => it?.toLowerCase() === latestAlias.toLowerCase())
  const byAlias = 'EXISTS (SELECT 1 FROM artifact_aliases l WHERE l.artifact_version_id = v.id AND l.alias = '
  return await queries.row<ArtifactVersion>(
    `SELECT ${versionColumns} ${versionsOfArtifacts} WHERE a.id = $1 AND v.deleted_at IS NULL
       AND ($2::text IS NULL OR v.id = $2)
       AND ($3::text IS NULL OR v.version = $3)
       AND ($4::text IS NULL OR ${byAlias} $4))
       AND ($5::text IS NULL OR v.version = $5 OR ${byAlias} $5))
     ORDER BY v.version = $5 DESC NULLS LAST, v.state = 'CLOSED' DESC, v.place DESC LIMIT 1`,
    [
      artifactId,
      versionId ?? null,
      version ?? null,
      isLatest ? null : (alias ?? null),
      isLatest ? null : (versionOrAlias ?? null),
    ],
  )
}

/** The files of a version in the order they came. */
export async function listArtifactFiles(queries: Queries, versionId: string): Promise<Asset[]> {
  return await queries.rows<Asset>(`${selectFiles} ORDER BY place`, [versionId])
}

export async function findArtifactFile(
  queries: Queries,
  versionId: string,
  assetId: string,
): Promise<Asset | undefined> {
  return await queries.row<Asset>(`SELECT * FROM (${selectFiles}) AS file WHERE id = $2`, [versionId, assetId])
}

const selectFiles = `SELECT ${assetColumns.replace(/^id/, 'asset_id AS id')}, place FROM artifact_files
    WHERE artifact_version_id = $1
  UNION ALL SELECT ${assetColumns}, place FROM assets WHERE artifact_version_id = $1
    AND (SELECT state FROM artifact_versions WHERE id = $1) <> 'CLOSED'`

type NewVersion = {
  experiment: { id: bigint; key: string; projectId: string }
  userId: string
  artifactName: string
  artifactType: string | undefined
  isPublic: boolean | undefined
  description: string | undefined
  /** The next major one when it is not given. */
  version: string | undefined
  metadata: string | undefined
  tags: string[]
  aliases: string[]
  nowMs: number
}

type Opened = { artifactId: string; versionId: string; previousVersion: string | null; version: string }

/** The type of an artifact of which nothing else is said. */
const plainType = 'unknown'

/**
 * Opens a version of an artifact, which is made when the workspace has none of this name, and else changed where
 * something else is said of it.
 *
 * @throws ArtifactConflict
 */
export async function openArtifactVersion(database: Database, given: NewVersion): Promise<Opened> {
  const { experiment, userId, artifactName, artifactType, isPublic, description } = given
  return await database.transaction(async (queries) => {
    const artifact = (await queries.row<{ id: string }>(
      `INSERT INTO artifacts (workspace_id, project_id, experiment_key, owner_id, name, type, is_public, description)
       SELECT p.workspace_id, p.id, $2, $3, $4, coalesce($5, '${plainType}'), coalesce($6, false), $7
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

/** Deleted ones count: their numbers are not given again. */
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

/** Takes the aliases of a closed version from the others that have them. */
async function takeAliasesOver(queries: Queries, versionId: string) {
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
 * Ends a version, or leaves it open. When it is closed its files are kept for themselves and its aliases move to it.
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
    const kept = `place, file_name, type, content_type, size, sha256, object_key, link, step, context, metadata, tags,
      grouping_name, created_at_ms`
    await queries.row(
      `INSERT INTO artifact_files (artifact_version_id, asset_id, ${kept})
       SELECT artifact_version_id, id, ${kept} FROM assets WHERE artifact_version_id = $1 FOR KEY SHARE`,
      [versionId],
    )
    await takeAliasesOver(queries, versionId)
  })
}

type Labels = { aliases: string[] | undefined; tags: string[] | undefined; metadata: string | undefined }

/**
 * Changes what is said of a version, also of a closed one; lists that are given replace those that are there.
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
    if (state === 'CLOSED') await takeAliasesOver(queries, versionId)
  })
}

type Details = {
  type: string | undefined
  tags: string[] | undefined
  metadata: string | undefined
  ofVersion: { version: string; metadata: string | undefined } | undefined
}

/**
 * Changes what is said of an artifact as a whole, and of one of its versions.
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

/** Deletes a version and its files. Its number is not given again. */
export async function deleteArtifactVersion(database: Database, versionId: string): Promise<void> {
  await database.transaction(async (queries) => {
    await lockVersion(queries, versionId)
    await queries.row('UPDATE artifact_versions SET deleted_at = now() WHERE id = $1', [versionId])
    await queries.row('DELETE FROM artifact_aliases WHERE artifact_version_id = $1', [versionId])
    await queries.row('DELETE FROM artifact_files WHERE artifact_version_id = $1', [versionId])
    await queries.row('DELETE FROM assets WHERE artifact_version_id = $1', [versionId])
  })
}

/** Deletes an artifact with all its versions and their files. */
export async function deleteArtifact(queries: Queries, artifactId: string): Promise<void> {
  await queries.row('DELETE FROM artifacts WHERE id = $1', [artifactId])
}

/** Notes that an experiment uses a version. */
export async function insertArtifactConsumer(queries: Queries, versionId: string, experimentId: bigint): Promise<void> {
  await queries.row(
    'INSERT INTO artifact_consumers (artifact_version_id, experiment_id) VALUES ($1, $2) ON CONFLICT DO NOTHING',
    [versionId, experimentId],
  )
}

export type ArtifactConsumer = { experimentKey: string; firstAtMs: bigint }

/** The experiments that use a version, the first one first, as far as the viewer may see them. */
export async function listArtifactConsumers(
  queries: Queries,
  viewer: Viewer,
  versionId: string,
): Promise<ArtifactConsumer[]> {
  return await queries.rows<ArtifactConsumer>(
    `SELECT e.key AS "experimentKey", (extract(epoch FROM c.first_at) * 1000)::bigint AS "firstAtMs"
     FROM artifact_consumers c JOIN experiments e ON e.id = c.experiment_id JOIN projects p ON p.id = e.project_id
       JOIN workspaces w ON w.id = p.workspace_id
     WHERE c.artifact_version_id = $4 AND e.deleted_at IS NULL AND ${mayReadExperiment('e', 'p', 'w')}
     ORDER BY c.first_at, e.id`,
    [...toViewerValues(viewer), versionId],
  )
}
