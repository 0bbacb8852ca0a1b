import type { Database } from '../../../store/postgres/database.ts'
import {
  findMlflowVersion,
  listAliases,
  listMlflowVersions,
  listModelTags,
  type MlflowVersion,
} from '../../../store/postgres/mlflow/registry.ts'
import type { RegistryModel } from '../../../store/postgres/registry/models.ts'
import { findRegistryVersion } from '../../../store/postgres/registry/versions.ts'
import type { Access } from '../../access.ts'
import { findModel, unknownChoice } from '../../registry/find.ts'
import type { MlflowCall } from '../find.ts'
import { findWorkspaceOf } from '../workspace.ts'
import { toModel, toSemver } from './answers.ts'

export type RegistryFinder = ReturnType<typeof createRegistryFinder>

/** Registered models and versions of the workspace that a call is about. */
export function createRegistryFinder({ database, access }: { database: Database; access: Access }) {
  async function model(call: MlflowCall, modelName: string): Promise<RegistryModel> {
    const { name: workspaceName } = await findWorkspaceOf(access, call)
    return await findModel(database, call.caller, { workspaceName, modelName })
  }

  return {
    model,

    /** A version by its number. @throws HttpError `registryVersionUnknown` */
    async version(call: MlflowCall, name: string, given: string): Promise<MlflowVersion> {
      const { id } = await model(call, name)
      const version = await findRegistryVersion(database, id, { version: toSemver(given) })
      const found = version && (await findMlflowVersion(database, version.id))
      if (found) return found
      throw unknownChoice(name, { version: given })
    },

    /** Models with all that clients read of them. */
    async describe(models: RegistryModel[]) {
      const ids = models.map((it) => it.id)
      const [versions, tags, aliases] = await Promise.all([
        listMlflowVersions(database, ids),
        listModelTags(database, ids),
        listAliases(database, ids),
      ])
      return models.map((it) => {
        const isOf = (of: { modelId: string }) => of.modelId === it.id
        return toModel(it, { versions: versions.filter(isOf), tags: tags.filter(isOf), aliases: aliases.filter(isOf) })
      })
    },
  }
}
