import { checkFields, experimentKey, object, optional, text } from '../../http/body/fields.ts'
import { HttpError } from '../../http/errors.ts'
import type { Caller } from '../../http/route.ts'
import { findArtifactFile } from '../../store/postgres/artifacts/files.ts'
import { type Asset, findAsset } from '../../store/postgres/assets/assets.ts'
import type { Queries } from '../../store/postgres/database.ts'
import type { Access } from '../access.ts'
import type { ArtifactAccess } from '../artifacts/access.ts'
import { findVersionFile } from '../registry/find.ts'
import { versionPrefix } from './answer.ts'
import { assetFields, assetId } from './fields.ts'

/** How a read names an asset. */
export const assetQuery = object({
  experimentKey: optional(text(200)).describe(
    'not needed with artifactVersionId; in links to files of registered versions: version: and their id',
  ),
  assetId: optional(assetId),
  artifactVersionId: optional(assetFields.artifactVersionId),
})

type AssetReference = {
  experimentKey?: string | undefined
  assetId?: string | undefined
  artifactVersionId?: string | undefined
}

type Deps = { database: Queries; access: Access; artifacts: ArtifactAccess }

/** Finds an asset that the caller may read: of an experiment, of an artifact version or of a registered version. */
export function createAssetFinder({ database, access, artifacts }: Deps) {
  async function findInExperiment(caller: Caller, key: string | undefined, id: string): Promise<Asset> {
    const named = checkFields(object({ experimentKey }), { experimentKey: key })
    if (named.experimentKey.startsWith(versionPrefix)) {
      const versionId = named.experimentKey.slice(versionPrefix.length)
      return await findVersionFile(database, caller, versionId, id)
    }
    const experiment = await access.experiment(caller, named.experimentKey)
    const asset = await findAsset(database, experiment.id, id)
    if (!asset) throw unknownAsset(id)
    return asset
  }

  async function findInArtifact(
    caller: Caller,
    experimentKey: string | undefined,
    versionId: string,
    id: string,
  ): Promise<Asset> {
    // Some clients send an empty key where they have none.
    const named = experimentKey || undefined
    if (named !== undefined) await access.experiment(caller, named)
    const { version } = await artifacts.version(caller, { experimentKey: named, versionId })
    const file = await findArtifactFile(database, version.id, id)
    if (file) return file
    throw new HttpError('assetUnknown', `The artifact version has no file ${id}: see /artifacts/version/files.`)
  }

  return async (caller: Caller, asked: AssetReference): Promise<Asset> => {
    const { assetId: id } = checkFields(object({ assetId }), { assetId: asked.assetId })
    return asked.artifactVersionId === undefined
      ? await findInExperiment(caller, asked.experimentKey, id)
      : await findInArtifact(caller, asked.experimentKey, asked.artifactVersionId, id)
  }
}

export type AssetFinder = ReturnType<typeof createAssetFinder>

export function unknownAsset(id: string): HttpError {
  return new HttpError('assetUnknown', `The experiment has no asset ${id}: see /experiment/asset/list.`)
}
