import type { LineageNode } from '../api/artifacts/lineage.ts'
import { toPagePath } from '../kit/page-link.tsx'

/** The page of a node, by its path. */
export function toNodePath(it: LineageNode): string {
  if (it.kind === 'run') return toPagePath(it.workspaceName, it.projectName ?? '', it.experimentKey ?? '')
  const room = it.kind === 'artifact' ? 'artifacts' : 'models'
  return `${toPagePath(it.workspaceName)}/-/${room}/${toPagePath(it.name, it.version ?? '')}`
}
