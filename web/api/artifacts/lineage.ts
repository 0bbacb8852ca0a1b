import { queryOptions } from '@tanstack/react-query'
import { read } from '../http.ts'

export type LineageNode = {
  /** Its id in edges. */
  node: string
  kind: 'run' | 'artifact' | 'model'
  workspaceName: string
  name: string
  projectName: string | null
  experimentKey: string | null
  version: string | null
  versionId: string | null
  artifactType: string | null
  state: string | null
  stages: string[]
}

export type LineageEdge = { from: string; to: string }

export type Lineage = { start: string; nodes: LineageNode[]; edges: LineageEdge[]; truncated: boolean }

/** What a lineage begins at. */
export type LineageOf = { experimentKey: string } | { artifactVersionId: string } | { registryModelItemId: string }

/** How many of the nearest nodes are asked for, until somebody wants more. */
export const nodesUsual = 500

export const lineage = (of: LineageOf, nodesMax = nodesUsual) =>
  queryOptions({
    queryKey: ['lineage', of, nodesMax],
    queryFn: ({ signal }) => read<Lineage>('/lineage', { ...of, nodesMax }, { signal }),
  })
