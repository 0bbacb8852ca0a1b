import { z } from 'zod'
import { toJsonInteger } from '../../http/body/exact-json.ts'
import type { Artifact } from '../../store/postgres/artifacts/artifacts.ts'
import type { ArtifactVersion } from '../../store/postgres/artifacts/versions.ts'
import type { Asset } from '../../store/postgres/assets/assets.ts'
import { toFolder } from '../assets/answer.ts'

export const artifactAnswer = z.object({
  artifactId: z.string(),
  artifactName: z.string(),
  name: z.string().describe('the same'),
  projectId: z.string().nullable(),
  project: z.string().nullable().describe('its name'),
  workspaceId: z.string(),
  workspaceName: z.string(),
  experimentKey: z.string().describe('of the experiment that opened its first version'),
  description: z.string().nullable(),
  version: z.string().nullable().describe('the newest closed one'),
  metadata: z.string().nullable().describe('as it was sent, to the byte'),
  artifactType: z.string(),
  type: z.string().describe('the same'),
  isPublic: z.boolean(),
  owner: z.string(),
  s3FileSize: z.int().describe('bytes of all its versions'),
  sizeInBytes: z.int().describe('the same'),
  emoji: z.null(),
  tags: z.array(z.string()),
})

export function toArtifactAnswer(artifact: Artifact): z.input<typeof artifactAnswer> {
  return {
    artifactId: artifact.id,
    artifactName: artifact.name,
    name: artifact.name,
    projectId: artifact.projectId,
    project: artifact.projectName,
    workspaceId: artifact.workspaceId,
    workspaceName: artifact.workspaceName,
    experimentKey: artifact.experimentKey,
    description: artifact.description,
    version: artifact.latestVersion,
    metadata: artifact.metadata,
    artifactType: artifact.type,
    type: artifact.type,
    isPublic: artifact.isPublic,
    owner: artifact.owner,
    s3FileSize: toJsonInteger(artifact.bytes),
    sizeInBytes: toJsonInteger(artifact.bytes),
    emoji: null,
    tags: artifact.tags,
  }
}

export const versionAnswer = z.object({
  artifactVersionId: z.string(),
  artifactVersion: z.string(),
  version: z.string().describe('the same'),
  owner: z.string(),
  createdFrom: z.null(),
  sizeInBytes: z.int(),
  metadata: z.string().nullable().describe('as it was sent, to the byte'),
  note: z.null(),
  added: z.int().describe('ms since the Unix epoch'),
  state: z.enum(['OPEN', 'CLOSED', 'ERROR']),
  tags: z.array(z.string()),
  alias: z.array(z.string()),
  experimentKey: z.string().describe('of the experiment that opened it'),
})

export function toVersionAnswer(version: ArtifactVersion): z.input<typeof versionAnswer> {
  return {
    artifactVersionId: version.id,
    artifactVersion: version.version,
    version: version.version,
    owner: version.owner,
    createdFrom: null,
    sizeInBytes: toJsonInteger(version.bytes),
    metadata: version.metadata,
    note: null,
    added: toJsonInteger(version.createdAtMs),
    state: version.state,
    tags: version.tags,
    alias: version.aliases,
    experimentKey: version.experimentKey,
  }
}

export const artifactFileAnswer = z.object({
  artifactId: z.string(),
  artifactVersionId: z.string(),
  assetId: z.string(),
  fileName: z.string(),
  fileSize: z.int(),
  link: z.string().nullable().describe('the address of a remote file; null for a stored one'),
  dir: z.string(),
  type: z.string(),
  metadata: z.string().nullable().describe('as it was sent, to the byte'),
  remote: z.boolean(),
})

type Place = { artifactId: string; versionId: string }

export function toFileAnswer(file: Asset, { artifactId, versionId }: Place): z.input<typeof artifactFileAnswer> {
  return {
    artifactId,
    artifactVersionId: versionId,
    assetId: file.id,
    fileName: file.fileName,
    fileSize: toJsonInteger(file.size),
    link: file.link,
    dir: toFolder(file),
    type: file.type === 'asset' ? 'unknown' : file.type,
    metadata: file.metadata,
    remote: file.link !== null,
  }
}
