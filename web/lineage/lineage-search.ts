import type { LineageOf } from '../api/artifacts/lineage.ts'

/** What the address of a lineage holds: one of a run, an artifact version and a registered version, by its id. */
export type LineageSearch = { run?: string; artifact?: string; model?: string; list?: true }

export function parseLineageSearch({ run, artifact, model, list }: Record<string, unknown>): LineageSearch {
  return {
    ...(run !== undefined && { run: String(run) }),
    ...(artifact !== undefined && { artifact: String(artifact) }),
    ...(model !== undefined && { model: String(model) }),
    ...(list === true && { list }),
  }
}

export function toLineageOf({ run, artifact, model }: LineageSearch): LineageOf | undefined {
  if (run !== undefined) return { experimentKey: run }
  if (artifact !== undefined) return { artifactVersionId: artifact }
  return model === undefined ? undefined : { registryModelItemId: model }
}
