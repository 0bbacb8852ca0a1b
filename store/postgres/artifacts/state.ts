import type { Queries } from '../database.ts'

/** Files come and go while a version is open. A closed one is final, and so is one that ended with an error. */
export type ArtifactState = 'OPEN' | 'CLOSED' | 'ERROR'

type Conflict = 'versionExists' | 'versionWasDeleted' | 'versionUnknown' | 'stateFinal'

/** What was asked for does not go together with what is there: nothing was changed. */
export class ArtifactConflict extends Error {
  readonly conflict: Conflict

  constructor(conflict: Conflict) {
    super(`artifact: ${conflict}`)
    this.conflict = conflict
  }
}

/**
 * The state of a version, which stays so until the transaction ends.
 *
 * @throws ArtifactConflict when the experiment has opened no such version
 */
export async function holdArtifactState(
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
