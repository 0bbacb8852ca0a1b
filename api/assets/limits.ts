import { HttpError } from '../../http/errors.ts'
import { sumWorkspaceBytes } from '../../store/postgres/assets/assets.ts'
import type { Database } from '../../store/postgres/database.ts'
import type { Experiment } from '../../store/postgres/experiments/experiments.ts'

export type AssetLimits = {
  fileBytesMax: number
  /** How many assets of each limited type an experiment may have. */
  ofTypeMax: number
  /** All files of a workspace together. */
  workspaceBytesMax: number | undefined
}

/** The limited asset types, with the error and the name for its message. */
const limitedTypes = {
  image: ['imagesFull', 'images'],
  'text-sample': ['textSamplesFull', 'text samples'],
  histogram3d: ['histogramsFull', 'histograms'],
  histogram_combined_3d: ['histogramsFull', 'combined histograms'],
  'model-element': ['modelElementsFull', 'model elements'],
  curve: ['curvesFull', 'curves'],
  notebook: ['notebooksFull', 'notebooks'],
  embeddings: ['embeddingsFull', 'embeddings'],
  video: ['videosFull', 'videos'],
} as const

type LimitedType = keyof typeof limitedTypes

const isLimited = (type: string): type is LimitedType => Object.hasOwn(limitedTypes, type)

export function createAssetLimits({ database, limits }: { database: Database; limits: AssetLimits }) {
  return {
    fileBytesMax: limits.fileBytesMax,

    ofTypeMax: (type: string) => (isLimited(type) ? limits.ofTypeMax : Number.POSITIVE_INFINITY),

    tooMany(type: string): HttpError {
      const [kind, name] = limitedTypes[type as LimitedType]
      return new HttpError(
        kind,
        `The experiment has reached the limit of ${limits.ofTypeMax} ${name}: delete some, or log to another experiment.`,
      )
    },

    /**
     * @param bytes the size of the new assets
     * @throws HttpError `workspaceFull`
     */
    async checkWorkspace({ projectId, workspaceName }: Experiment, bytes: number): Promise<void> {
      await checkRoom({ projectId }, workspaceName, bytes)
    },

    /** The same for the assets of an archive, whose project is not there yet. */
    async checkRoom({ id, name }: { id: string; name: string }, bytes: number): Promise<void> {
      await checkRoom({ workspaceId: id }, name, bytes)
    },
  }

  async function checkRoom(of: Parameters<typeof sumWorkspaceBytes>[1], workspaceName: string, bytes: number) {
    const { workspaceBytesMax } = limits
    if (workspaceBytesMax === undefined) return
    const used = Number(await sumWorkspaceBytes(database, of))
    if (used + bytes <= workspaceBytesMax) return
    throw new HttpError(
      'workspaceFull',
      `The workspace "${workspaceName}" has ${used} bytes of assets; the limit is ${workspaceBytesMax}: delete some.`,
    )
  }
}
