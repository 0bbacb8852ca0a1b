import type { Queries } from '../database.ts'

/** Files change only while a version is open. CLOSED and ERROR are final. */
export type ArtifactState = 'OPEN' | 'CLOSED' | 'ERROR'

type Conflict = 'versionExists' | 'versionWasDeleted' | 'versionUnknown' | 'stateFinal'

/** The change conflicts with the stored state. Nothing was changed. */
export class ArtifactConflict extends Error {
  readonly conflict: Conflict

  constructor(conflict: Conflict) {
    super(`artifact: ${conflict}`)
    this.conflict = conflict
  }
}

/**
 * The state of a version, locked until the transaction ends.
 *
 * @throws ArtifactConflict when the experiment has opened no such version
 */
export async function lockArtifactState(
  queries: Queries,
  versionId: string,
  experimentId: bigint,
): Promise<ArtifactState> {
  const row = await queries.row<{ state: ArtifactState }>(
    'SELECT state FROM artifact_versions WHERE id = $1 AND experiment_id = $2 AND deleted_at IS NULL FOR SHARE',
    [versionId, experimentId],
  )
  if (!row) throw new ArtifactConflict('versionUnknown')
  return row.state
}
