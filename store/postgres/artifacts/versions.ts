import type { Queries } from '../database.ts'
import type { ArtifactState } from './state.ts'

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

/** The newest closed version always has this alias. */
export const latestAlias = 'Latest'

/** The id of the newest closed version of the artifact `a`. */
export const newestClosed = `(SELECT n.id FROM artifact_versions n WHERE n.artifact_id = a.id AND n.state = 'CLOSED'
  AND n.deleted_at IS NULL ORDER BY n.place DESC LIMIT 1)`

/** A closed version counts its own files, an open one the assets uploaded so far. */
export const bytesOf = (version: string) => `(CASE WHEN ${version}.state = 'CLOSED'
  THEN (SELECT coalesce(sum(f.size), 0) FROM artifact_files f WHERE f.artifact_version_id = ${version}.id)
  ELSE (SELECT coalesce(sum(f.size), 0) FROM assets f WHERE f.artifact_version_id = ${version}.id) END)`

const versionColumns = `v.id, v.version, v.state, v.experiment_key AS "experimentKey", vo.user_name AS owner, v.metadata,
  v.tags, ARRAY(SELECT l.alias FROM artifact_aliases l WHERE l.artifact_version_id = v.id ORDER BY l.alias)
    || CASE WHEN v.id = ${newestClosed} THEN ARRAY['${latestAlias}'] ELSE ARRAY[]::text[] END AS aliases,
  v.created_at_ms AS "createdAtMs", ${bytesOf('v')}::bigint AS bytes`

const versionsOfArtifacts = `FROM artifact_versions v JOIN artifacts a ON a.id = v.artifact_id
  JOIN users vo ON vo.id = v.owner_id`

/** The versions of an artifact, newest first. */
export async function listArtifactVersions(queries: Queries, artifactId: string): Promise<ArtifactVersion[]> {
  return await queries.rows<ArtifactVersion>(
    `SELECT ${versionColumns} ${versionsOfArtifacts} WHERE a.id = $1 AND v.deleted_at IS NULL ORDER BY v.place DESC`,
    [artifactId],
  )
}

/** How a caller refers to a version; without any field, the newest one. */
export type VersionChoice = {
  versionId?: string | undefined
  version?: string | undefined
  alias?: string | undefined
  versionOrAlias?: string | undefined
}

/** Finds the version of a choice. Closed versions come before open ones, newer before older. */
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
