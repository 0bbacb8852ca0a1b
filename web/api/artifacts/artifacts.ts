import { queryOptions } from '@tanstack/react-query'
import { post, read } from '../http.ts'

type ArtifactState = 'OPEN' | 'CLOSED' | 'ERROR'

export type Artifact = {
  artifactId: string
  artifactName: string
  artifactType: string
  project: string | null
  description: string | null
  metadata: string | null
  isPublic: boolean
  owner: string
  sizeInBytes: number
  latestVersion: string | null
  tags: string[]
}

export type ArtifactVersion = {
  artifactVersionId: string
  artifactVersion: string
  owner: string
  sizeInBytes: number
  metadata: string | null
  added: number
  state: ArtifactState
  tags: string[]
  alias: string[]
  experimentKey: string
}

export type ArtifactDetails = Artifact & { versions: ArtifactVersion[] }

/** The artifacts of a workspace, by name. */
export const artifacts = (workspace: string) =>
  queryOptions({
    queryKey: ['artifacts', workspace],
    queryFn: async ({ signal }) =>
      (await read<{ artifacts: Artifact[] }>('/artifacts/get-all', { workspace }, { signal })).artifacts,
  })

/** An artifact with its versions, the newest first. */
export const artifact = (workspace: string, artifactName: string) =>
  queryOptions({
    queryKey: ['artifacts', workspace, artifactName],
    queryFn: ({ signal }) => read<ArtifactDetails>('/artifacts/get', { workspace, artifactName }, { signal }),
  })

/** Replaces the lists that are given. An alias belongs to one version of an artifact: it moves here from another. */
export const setLabels = (artifactVersionId: string, labels: { alias?: string[]; versionTags?: string[] }) =>
  post('/write/artifacts/version/labels', { artifactVersionId, ...labels })

/** The runs that use a version, in the order of their first use. */
export const consumers = (versionId: string) =>
  queryOptions({
    queryKey: ['artifact-consumers', versionId],
    queryFn: async ({ signal }) =>
      (
        await read<{ consumers: { experimentKey: string; firstUsed: number }[] }>(
          '/artifacts/version/consumers',
          { versionId },
          { signal },
        )
      ).consumers,
  })

type FileChange = 'added' | 'removed' | 'changed'
type ComparedFile = { assetId: string; fileSize: number; sha256: string | null; link: string | null }
export type FileDifference = {
  fileName: string
  change: FileChange
  from: ComparedFile | null
  to: ComparedFile | null
}
type Differences = Record<FileChange | 'unchanged', number> & { files: FileDifference[]; nextPage: string | null }

export const readDifferences = (
  asked: { fromVersionId: string; toVersionId: string; page?: string; pageSize?: number },
  signal?: AbortSignal,
) => read<Differences>('/artifacts/version/diff', asked, { signal })
