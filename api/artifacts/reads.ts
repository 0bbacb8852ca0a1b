import { z } from 'zod'
import { toJsonInteger } from '../../http/body/exact-json.ts'
import { experimentKey, object, optional, text } from '../../http/body/fields.ts'
import { type Route, route } from '../../http/route.ts'
import type { ObjectStore } from '../../store/objects/object-store.ts'
import { listArtifacts } from '../../store/postgres/artifacts/artifacts.ts'
import {
  insertArtifactConsumer,
  listArtifactConsumers,
  listLinkedVersions,
} from '../../store/postgres/artifacts/consumers.ts'
import { listArtifactFiles } from '../../store/postgres/artifacts/files.ts'
import { listArtifactVersions } from '../../store/postgres/artifacts/versions.ts'
import type { Database, Queries } from '../../store/postgres/database.ts'
import { type Access, toViewer } from '../access.ts'
import { sendZip } from '../assets/download.ts'
import { type ArtifactAccess, artifactQuery, versionQuery } from './access.ts'
import {
  artifactAnswer,
  artifactFileAnswer,
  toArtifactAnswer,
  toFileAnswer,
  toVersionAnswer,
  versionAnswer,
} from './answer.ts'
import { artifactTopic } from './artifacts.ts'

type Deps = { database: Database; reads: Queries; objects: ObjectStore; access: Access; artifacts: ArtifactAccess }

export function createArtifactReadRoutes({ database, reads, objects, access, artifacts }: Deps): Route[] {
  const version = route({
    method: 'GET',
    path: '/artifacts/version',
    permission: 'caller',
    topic: artifactTopic,
    summary:
      'Reads a version of an artifact. With consumerExperimentKey, the version is recorded as used by that experiment.',
    query: object({ ...versionQuery.shape, consumerExperimentKey: optional(experimentKey) }),
    answer: versionAnswer.extend({ artifact: artifactAnswer }),
    shape: 'plain',
    async handle({ query: { consumerExperimentKey, ...query }, caller }) {
      const found = await artifacts.version(caller, query)
      if (consumerExperimentKey !== undefined) {
        const consumer = await access.writableExperiment(caller, consumerExperimentKey)
        await insertArtifactConsumer(database, found.version.id, consumer.id)
      }
      return { ...toVersionAnswer(found.version), artifact: toArtifactAnswer(found.artifact) }
    },
  })

  const files = route({
    method: 'GET',
    path: '/artifacts/version/files',
    permission: 'caller',
    topic: artifactTopic,
    summary: 'Lists the files of a version. `/experiment/asset/get-asset` with artifactVersionId reads one of them.',
    query: versionQuery,
    answer: z.object({ files: z.array(artifactFileAnswer) }),
    shape: 'plain',
    async handle({ query, caller }) {
      const found = await artifacts.version(caller, query)
      const ids = { artifactId: found.artifact.id, versionId: found.version.id }
      const listed = await listArtifactFiles(reads, found.version.id)
      return { files: listed.map((it) => toFileAnswer(it, ids)) }
    },
  })

  const download = route({
    method: 'GET',
    path: '/artifacts/version/download',
    permission: 'caller',
    topic: artifactTopic,
    summary: 'Reads the files of a version as a zip, without remote files.',
    query: versionQuery,
    answer: z.file(),
    shape: 'bytes',
    async handle({ query, caller, reply }) {
      const found = await artifacts.version(caller, query)
      const listed = await listArtifactFiles(reads, found.version.id)
      return sendZip(reply, objects, `${found.artifact.name}-${found.version.version}`, listed)
    },
  })

  const consumers = route({
    method: 'GET',
    path: '/artifacts/version/consumers',
    permission: 'caller',
    topic: artifactTopic,
    summary: 'Lists the experiments that use a version, oldest use first.',
    query: versionQuery,
    answer: z.object({ consumers: z.array(z.object({ experimentKey: z.string(), firstUsed: z.int() })) }),
    shape: 'plain',
    async handle({ query, caller }) {
      const found = await artifacts.version(caller, query)
      const listed = await listArtifactConsumers(reads, toViewer(caller), found.version.id)
      return {
        consumers: listed.map((it) => ({ experimentKey: it.experimentKey, firstUsed: toJsonInteger(it.firstAtMs) })),
      }
    },
  })

  const details = route({
    method: 'GET',
    path: '/artifacts/get',
    permission: 'caller',
    topic: artifactTopic,
    summary: 'Reads an artifact with its versions, newest first.',
    query: artifactQuery,
    answer: artifactAnswer.extend({
      latestVersion: z.string().nullable().describe('the newest closed one'),
      versions: z.array(versionAnswer),
    }),
    shape: 'plain',
    async handle({ query, caller }) {
      const artifact = await artifacts.artifact(caller, query)
      const versions = await listArtifactVersions(reads, artifact.id)
      return {
        ...toArtifactAnswer(artifact),
        latestVersion: artifact.latestVersion,
        versions: versions.map(toVersionAnswer),
      }
    },
  })

  const list = route({
    method: 'GET',
    path: '/artifacts/get-all',
    permission: 'caller',
    topic: artifactTopic,
    summary:
      'Lists the artifacts of a workspace by name. Members see all; others in the organization see the public ones.',
    query: object({
      workspace: text(500, 1),
      project: optional(text(500, 1)).describe('only artifacts that were created in this project'),
      type: optional(text(200, 1)).describe('only artifacts of this type'),
    }),
    answer: z.object({ artifacts: z.array(artifactAnswer.extend({ latestVersion: z.string().nullable() })) }),
    shape: 'plain',
    async handle({ query: { workspace, project, type }, caller }) {
      const filter = { workspaceName: workspace, projectName: project, type }
      const found = await listArtifacts(reads, toViewer(caller), filter)
      return { artifacts: found.map((it) => ({ ...toArtifactAnswer(it), latestVersion: it.latestVersion })) }
    },
  })

  const linked = route({
    method: 'GET',
    path: '/get/artifacts',
    permission: 'caller',
    topic: artifactTopic,
    summary: 'Lists the artifact versions that an experiment made and those that it used.',
    query: object({
      experimentKey,
      filter: optional(z.enum(['all', 'output', 'input'], 'must be all, output or input')).describe(
        'output: made by the experiment; input: used by it',
      ),
    }),
    answer: z.object({
      artifacts: z.array(
        z.object({
          artifactId: z.string(),
          artifactName: z.string(),
          artifactType: z.string(),
          workspaceName: z.string(),
          artifactVersionId: z.string(),
          version: z.string(),
          state: z.enum(['OPEN', 'CLOSED', 'ERROR']),
          experimentKey: z.string().describe('of the experiment that made it'),
          direction: z.enum(['output', 'input']),
        }),
      ),
    }),
    shape: 'plain',
    async handle({ query: { filter = 'all', ...query }, caller }) {
      const experiment = await access.experiment(caller, query.experimentKey)
      const versions = await listLinkedVersions(reads, toViewer(caller), experiment)
      return { artifacts: versions.filter((it) => filter === 'all' || filter === it.direction) }
    },
  })

  return [version, files, download, consumers, details, list, linked]
}
