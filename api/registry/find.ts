import type { z } from 'zod'
import { object, text } from '../../http/body/fields.ts'
import { HttpError } from '../../http/errors.ts'
import type { Caller } from '../../http/route.ts'
import type { Asset } from '../../store/postgres/assets/assets.ts'
import type { Queries } from '../../store/postgres/database.ts'
import { findRegistryModel, type RegistryModel } from '../../store/postgres/registry/models.ts'
import { findVersionFacts, type VersionFacts } from '../../store/postgres/registry/statuses.ts'
import { findRegistryFile, type VersionChoice } from '../../store/postgres/registry/versions.ts'
import { refuseWithheld, toViewer } from '../access.ts'
import { workspaceName } from '../accounts/workspaces.ts'
import { unknownModel, unknownVersion } from './change.ts'

export const modelQuery = object({ workspaceName, modelName: text(1_000, 1) })

/** A registered model that the caller may read. @throws HttpError `registryModelUnknown` */
export async function findModel(
  queries: Queries,
  caller: Caller,
  query: z.output<typeof modelQuery>,
): Promise<RegistryModel> {
  const model = await findRegistryModel(queries, toViewer(caller), query)
  if (model) return model
  await refuseWithheld(queries, caller, 'workspaceName', query.workspaceName)
  throw unknownModel(query)
}

/** What a version has that the caller may read. @throws HttpError `registryVersionUnknown` */
export async function findFacts(queries: Queries, caller: Caller, versionId: string): Promise<VersionFacts> {
  const facts = await findVersionFacts(queries, toViewer(caller), versionId)
  if (facts) return facts
  await refuseWithheld(queries, caller, 'registryVersionId', versionId)
  throw unknownVersion(versionId)
}

/** For a model that has no version of the caller's choice. */
export function unknownChoice(modelName: string, choice: VersionChoice): HttpError {
  const wanted = Object.entries(choice).flatMap(([name, value]) => (value === undefined ? [] : `${name} "${value}"`))
  const what = wanted.length === 0 ? 'no versions' : `no version of ${wanted.join(' and ')}`
  return new HttpError('registryVersionUnknown', `The registry model "${modelName}" has ${what}.`)
}

/** A file of a version that the caller may read. @throws HttpError `registryVersionUnknown` */
export async function findVersionFile(
  queries: Queries,
  caller: Caller,
  versionId: string,
  assetId: string,
): Promise<Asset> {
  const file = await findRegistryFile(queries, toViewer(caller), versionId, assetId)
  if (file) return file
  await refuseWithheld(queries, caller, 'registryVersionId', versionId)
  throw new HttpError(
    'registryVersionUnknown',
    `There is no file ${assetId} of a registry model version ${versionId} that this key may use.`,
  )
}
