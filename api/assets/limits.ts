import { HttpError } from '../../http/errors.ts'
import type { TenantLimits } from '../../store/limits.ts'
import { findTenantOf, findTenantUsage, type TenantOf } from '../../store/postgres/accounts/limits.ts'
import { sumWorkspaceBytes } from '../../store/postgres/assets/assets.ts'
import type { Database } from '../../store/postgres/database.ts'
import type { Experiment } from '../../store/postgres/experiments/experiments.ts'

export type AssetLimits = {
  fileBytesMax: number
  /** How many assets of each limited type an experiment may have. */
  ofTypeMax: number
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

type Deps = { database: Database; limits: AssetLimits; perTenant: TenantLimits }

export function createAssetLimits({ database, limits, perTenant }: Deps) {
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
    async checkWorkspace({ projectId }: Experiment, bytes: number): Promise<void> {
      await checkRoom({ projectId }, bytes)
    },

    /** The same for the assets of an archive, whose project is not there yet. */
    async checkRoom({ id }: { id: string }, bytes: number): Promise<void> {
      await checkRoom({ workspaceId: id }, bytes)
    },
  }

  async function checkRoom(of: TenantOf, bytes: number) {
    const { name, organizationId, workspace, organization } = await findTenantOf(database, of)
    const refuse = (whose: string, used: number, max: number) => {
      throw new HttpError(
        'workspaceFull',
        `${whose} has ${used} bytes of files; the limit is ${max} (fileBytesMax): delete some, or ask an admin for more.`,
      )
    }
    const ofWorkspace = workspace.fileBytesMax ?? perTenant.workspace.fileBytesMax
    if (ofWorkspace !== undefined) {
      const used = Number(await sumWorkspaceBytes(database, of))
      if (used + bytes > ofWorkspace) refuse(`The workspace "${name}"`, used, ofWorkspace)
    }
    const ofOrganization = organization.fileBytesMax ?? perTenant.organization.fileBytesMax
    if (ofOrganization === undefined) return
    const { fileBytes } = await findTenantUsage(database, { organizationId, workspaceName: null })
    if (fileBytes + bytes > ofOrganization) refuse('This organization', fileBytes, ofOrganization)
  }
}
