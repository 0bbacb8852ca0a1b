import type { z } from 'zod'
import { object, optional, text } from '../../http/body/fields.ts'
import { HttpError, needsEditor } from '../../http/errors.ts'
import type { Caller } from '../../http/route.ts'
import { type Artifact, type ArtifactReference, findArtifact } from '../../store/postgres/artifacts/artifacts.ts'
import { ArtifactConflict } from '../../store/postgres/artifacts/state.ts'
import { type ArtifactVersion, findArtifactVersion, latestAlias } from '../../store/postgres/artifacts/versions.ts'
import type { Queries } from '../../store/postgres/database.ts'
import { type Access, refuseWithheld, toViewer } from '../access.ts'

const name = text(500, 1)

/** How a read names an artifact: `artifactId`, or `versionId`, or `artifactName` with `workspace` or `experimentKey`. */
export const artifactQuery = object({
  artifactId: optional(name),
  artifact_id: optional(name),
  artifactName: optional(name),
  workspace: optional(name).describe('the name of the workspace; when absent: the workspace of the experiment'),
  project: optional(name).describe('not needed: names of artifacts are unique in their workspace'),
  experimentKey: optional(name).describe(
    'the experiment that reads: only the experiment that opened a version can read it while it is open; when absent, who ' +
      'may write to the artifact, by artifactId and versionId',
  ),
})

/** How a read names a version of an artifact; without version fields it is the newest closed one. */
export const versionQuery = object({
  ...artifactQuery.shape,
  versionId: optional(name),
  version: optional(name),
  alias: optional(name).describe(`"${latestAlias}" is the newest closed version`),
  versionOrAlias: optional(name),
})

type ArtifactQuery = Partial<z.output<typeof artifactQuery>>
type VersionQuery = Partial<z.output<typeof versionQuery>>

export function createArtifactAccess({ queries, access }: { queries: Queries; access: Access }) {
  async function artifact(
    caller: Caller,
    query: ArtifactQuery & { versionId?: string | undefined },
  ): Promise<Artifact> {
    const reference = await toReference(caller, query)
    const found = await findArtifact(queries, toViewer(caller), reference)
    if (found) return found
    await refuseReference(caller, reference)
    throw query.artifactName === undefined && query.versionId !== undefined
      ? unknownVersion()
      : new HttpError('artifactUnknown', 'There is no such artifact that this key may use.')
  }

  async function refuseReference(caller: Caller, reference: ArtifactReference) {
    if ('artifactId' in reference) await refuseWithheld(queries, caller, 'artifactId', reference.artifactId)
    else if ('versionId' in reference) await refuseWithheld(queries, caller, 'artifactVersionId', reference.versionId)
    else await refuseWithheld(queries, caller, 'workspaceName', reference.workspaceName)
  }

  async function toReference(
    caller: Caller,
    query: ArtifactQuery & { versionId?: string | undefined },
  ): Promise<ArtifactReference> {
    const artifactId = query.artifactId ?? query.artifact_id
    if (artifactId !== undefined) return { artifactId }
    if (query.artifactName !== undefined) {
      const { workspace, experimentKey, artifactName } = query
      if (workspace !== undefined) return { workspaceName: workspace, artifactName }
      if (experimentKey !== undefined) {
        const { workspaceName } = await access.experiment(caller, experimentKey)
        return { workspaceName, artifactName }
      }
    }
    if (query.versionId !== undefined) return { versionId: query.versionId }
    throw new HttpError(
      'badRequest',
      'Name the artifact by artifactId, by versionId, or by artifactName together with workspace.',
    )
  }

  async function version(
    caller: Caller,
    query: VersionQuery,
  ): Promise<{ artifact: Artifact; version: ArtifactVersion }> {
    const found = await artifact(caller, query)
    const { versionId, version: number, alias, versionOrAlias, experimentKey } = query
    const chosen = await findArtifactVersion(queries, found.id, { versionId, version: number, alias, versionOrAlias })
    if (!chosen) throw unknownVersion()
    // A caller that may write to the experiment may read the versions it opened. Some clients then name no experiment, but
    // both ids that the opener got.
    const hasIds = (query.artifactId ?? query.artifact_id) !== undefined && versionId !== undefined
    const isNamedByOpener = experimentKey === undefined ? hasIds : chosen.experimentKey === experimentKey
    const isOpener = isNamedByOpener && found.isWritable
    if (chosen.state === 'OPEN' && !isOpener) {
      throw new HttpError(
        'artifactVersionOpen',
        `Version ${chosen.version} is not closed yet: only the experiment that opened it can read it now.`,
      )
    }
    if (chosen.state === 'ERROR' && !isOpener) {
      throw new HttpError('artifactVersionFailed', `Version ${chosen.version} was not closed because of an error.`)
    }
    return { artifact: found, version: chosen }
  }

  return {
    /** Finds an artifact that the caller may read. */
    artifact,

    /** Finds an artifact that the caller may change. */
    async writableArtifact(caller: Caller, query: { artifactId: string } | { versionId: string }): Promise<Artifact> {
      const found = await findArtifact(queries, toViewer(caller), query)
      if (!found?.isWritable) await refuseReference(caller, query)
      if (!found) {
        throw 'versionId' in query
          ? unknownVersion()
          : new HttpError('artifactUnknown', 'There is no such artifact that this key may use.')
      }
      if (found.isWritable) return found
      throw needsEditor('artifactReadOnly', 'artifact', found.workspaceName)
    },

    /** Finds a version that the caller may read: a closed one, or one that the reading experiment opened. */
    version,
  }
}

export type ArtifactAccess = ReturnType<typeof createArtifactAccess>

export function unknownVersion(): HttpError {
  return new HttpError('artifactVersionUnknown', 'There is no such version of an artifact that this key may use.')
}

/** Turns a conflict into an HTTP error; other errors stay the same. */
export function toArtifactError(error: unknown): unknown {
  if (!(error instanceof ArtifactConflict)) return error
  switch (error.conflict) {
    case 'versionUnknown':
      return unknownVersion()
    case 'versionExists':
      return new HttpError(
        'artifactVersionExists',
        'version: the artifact has this version already; leave it out to get the next one',
      )
    case 'versionWasDeleted':
      return new HttpError(
        'artifactVersionDeleted',
        'version: this version was deleted, and its number cannot be used again',
      )
    case 'stateFinal':
      return new HttpError('artifactVersionFinal', 'The version is CLOSED or ERROR, which is final: open a new one.')
  }
}
