import { z } from 'zod'
import { experimentKey, flag, indexedText, list, object, optional, text } from '../../http/body/fields.ts'
import { HttpError } from '../../http/errors.ts'
import { type Route, route } from '../../http/route.ts'
import { deleteArtifact, updateArtifact } from '../../store/postgres/artifacts/artifacts.ts'
import type { ArtifactState } from '../../store/postgres/artifacts/state.ts'
import {
  deleteArtifactVersion,
  openArtifactVersion,
  updateArtifactLabels,
  updateArtifactState,
} from '../../store/postgres/artifacts/version-changes.ts'
import { findArtifactVersion } from '../../store/postgres/artifacts/versions.ts'
import type { Database } from '../../store/postgres/database.ts'
import type { Heartbeats } from '../../store/postgres/experiments/heartbeats.ts'
import { parseSemver } from '../../store/registry/semver.ts'
import { type Access, requireWholeWorkspace } from '../access.ts'
import type { OrphanedObjects } from '../assets/orphaned-objects.ts'
import type { RateLimitedWrite } from '../rate-limited-write.ts'
import { type ArtifactAccess, toArtifactError, unknownVersion } from './access.ts'

export const artifactTopic = 'Artifacts'

const states: readonly string[] = ['OPEN', 'CLOSED', 'ERROR'] satisfies ArtifactState[]

const id = text(100, 1)
const versionNumber = text(100, 1)
  .refine((it) => parseSemver(it) !== undefined, 'expected a semantic version such as 1.0.0')
  .describe('a semantic version')
const metadata = text(1_000_000).describe('kept as it is, to the byte')
const tags = list(text(500, 1), 1_000)
const aliases = list(indexedText(500), 100)
const type = text(200, 1)

const msgAnswer = z.object({ msg: z.string() })

type Deps = {
  database: Database
  orphanedObjects: OrphanedObjects
  access: Access
  artifacts: ArtifactAccess
  heartbeats: Heartbeats
  rateLimited: RateLimitedWrite
}

/** Changes of artifacts. Their files are assets, uploaded with an `artifactVersionId` while the version is open. */
export function createArtifactRoutes({
  database,
  orphanedObjects,
  access,
  artifacts,
  heartbeats,
  rateLimited,
}: Deps): Route[] {
  async function orRefuse<T>(work: Promise<T>): Promise<T> {
    return await work.catch((error: unknown) => {
      throw toArtifactError(error)
    })
  }

  const upsert = route({
    method: 'POST',
    path: '/write/artifacts/upsert',
    charge: 'own',
    permission: 'caller',
    topic: artifactTopic,
    summary:
      'Opens a version of an artifact. The artifact is created if the workspace of the experiment has none of this name. ' +
      'Without a number the first version is 1.0.0; later ones raise the major part.',
    body: object({
      artifactName: indexedText(500),
      experimentKey,
      version: optional(versionNumber),
      artifactType: optional(type),
      isPublic: optional(flag),
      alias: optional(aliases).describe('move to this version when it is closed'),
      versionTags: optional(tags),
      versionMetadata: optional(metadata),
      description: optional(text(100_000)),
    }),
    answer: z.object({
      msg: z.string(),
      artifactId: z.string(),
      artifactVersionId: z.string(),
      previousVersion: z.string().nullable(),
      currentVersion: z.string(),
    }),
    shape: 'envelope',
    async handle({ body, caller }) {
      requireWholeWorkspace(caller)
      const experiment = await access.writableExperiment(caller, body.experimentKey)
      const { artifactName, artifactType, isPublic, description, version } = body
      const opened = await rateLimited('other', experiment, caller, () =>
        orRefuse(
          openArtifactVersion(database, {
            experiment,
            userId: caller.userId,
            artifactName,
            artifactType,
            isPublic,
            description,
            version,
            metadata: body.versionMetadata,
            tags: body.versionTags ?? [],
            aliases: body.alias ?? [],
            nowMs: Date.now(),
          }),
        ),
      )
      heartbeats.active(experiment.id, Date.now())
      return {
        msg: 'Saved',
        artifactId: opened.artifactId,
        artifactVersionId: opened.versionId,
        previousVersion: opened.previousVersion,
        currentVersion: opened.version,
      }
    },
  })

  const setState = route({
    method: 'POST',
    path: '/write/artifacts/state',
    charge: 'own',
    permission: 'caller',
    topic: artifactTopic,
    summary:
      'Ends a version: CLOSED, or ERROR when its upload failed. Both are final. Everyone who may read the artifact can ' +
      'read a closed version, and its files never change.',
    body: object({ experimentKey, artifactVersionId: id, state: text(100, 1), isPublic: optional(flag) }),
    answer: msgAnswer,
    shape: 'envelope',
    async handle({ body, caller }) {
      const state = body.state.toUpperCase()
      if (!isState(state)) {
        throw new HttpError('artifactStateUnknown', `state: expected one of ${states.join(', ')}`)
      }
      const experiment = await access.writableExperiment(caller, body.experimentKey)
      const versionId = body.artifactVersionId
      const artifact = await artifacts.writableArtifact(caller, { versionId })
      const version = await findArtifactVersion(database, artifact.id, { versionId })
      if (version?.experimentKey !== experiment.key) throw unknownVersion()
      await rateLimited('other', experiment, caller, () =>
        orRefuse(updateArtifactState(database, versionId, { state, isPublic: body.isPublic })),
      )
      return { msg: 'Saved' }
    },
  })

  const setLabels = route({
    method: 'POST',
    path: '/write/artifacts/version/labels',
    charge: 'call',
    permission: 'caller',
    topic: artifactTopic,
    summary:
      'Sets the alias, tags and metadata of a version, even a closed one. A list in the request replaces the stored one.',
    body: object({
      artifactVersionId: id,
      alias: optional(aliases).describe(
        'an alias belongs to one version of an artifact: it moves here from another version',
      ),
      versionTags: optional(tags),
      versionMetadata: optional(metadata),
    }),
    answer: msgAnswer,
    shape: 'envelope',
    async handle({ body, caller }) {
      const versionId = body.artifactVersionId
      await artifacts.writableArtifact(caller, { versionId })
      const labels = { aliases: body.alias, tags: body.versionTags, metadata: body.versionMetadata }
      await orRefuse(updateArtifactLabels(database, versionId, labels))
      return { msg: 'Saved' }
    },
  })

  const setDetails = route({
    method: 'POST',
    path: '/write/artifacts/details',
    charge: 'call',
    permission: 'caller',
    topic: artifactTopic,
    summary:
      'Sets the details of an artifact. With `version`, versionMetadata applies to that version, else to the artifact.',
    body: object({
      artifactId: optional(id),
      artifact_id: optional(id).describe('another spelling of artifactId'),
      artifactType: optional(type),
      version: optional(versionNumber),
      versionMetadata: optional(metadata),
      tags: optional(tags),
    }),
    answer: msgAnswer,
    shape: 'envelope',
    async handle({ body, caller }) {
      const artifactId = body.artifactId ?? body.artifact_id
      if (artifactId === undefined) throw new HttpError('badRequest', 'artifactId: is missing')
      const artifact = await artifacts.writableArtifact(caller, { artifactId })
      const { version: number, versionMetadata } = body
      const ofWhole = number === undefined ? versionMetadata : undefined
      const ofVersion = number === undefined ? undefined : { version: number, metadata: versionMetadata }
      const details = { type: body.artifactType, tags: body.tags, metadata: ofWhole, ofVersion }
      await orRefuse(updateArtifact(database, artifact.id, details))
      return { msg: 'Saved' }
    },
  })

  const removeVersion = route({
    method: 'GET',
    path: '/write/artifacts/version/delete',
    charge: 'call',
    permission: 'caller',
    topic: artifactTopic,
    summary: 'Deletes a version and its files. Its number cannot be used again.',
    query: object({ artifactVersionId: id }),
    answer: msgAnswer,
    shape: 'envelope',
    async handle({ query, caller }) {
      await artifacts.writableArtifact(caller, { versionId: query.artifactVersionId })
      await orRefuse(deleteArtifactVersion(database, query.artifactVersionId))
      await orphanedObjects.free()
      return { msg: 'Deleted' }
    },
  })

  const remove = route({
    method: 'GET',
    path: '/write/artifacts/delete',
    charge: 'call',
    permission: 'caller',
    topic: artifactTopic,
    summary: 'Deletes an artifact with all its versions and their files.',
    query: object({ artifactId: id }),
    answer: msgAnswer,
    shape: 'envelope',
    async handle({ query, caller }) {
      await artifacts.writableArtifact(caller, { artifactId: query.artifactId })
      await deleteArtifact(database, query.artifactId)
      await orphanedObjects.free()
      return { msg: 'Deleted' }
    },
  })

  return [upsert, setState, setLabels, setDetails, removeVersion, remove]
}

function isState(state: string): state is ArtifactState {
  return states.includes(state)
}
