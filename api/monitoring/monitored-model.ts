import { object, optional, text } from '../../http/body/fields.ts'
import { HttpError } from '../../http/errors.ts'
import type { Caller } from '../../http/route.ts'
import { findWorkspace, type Workspace } from '../../store/postgres/accounts/workspaces.ts'
import type { Queries } from '../../store/postgres/database.ts'
import {
  findMonitoredModel,
  findMonitoredModelById,
  type MonitoredModel,
} from '../../store/postgres/monitoring/models.ts'
import { type Access, refuseWithheld } from '../access.ts'

/** The model of a read. */
export const modelQuery = object({
  workspaceName: text(1_000, 1),
  modelName: text(1_000, 1).describe('a model, or a data set, that has reported'),
  modelVersion: optional(text(1_000)).describe('only this version; all versions when absent'),
})

export type ModelQuery = { workspaceName: string; modelName: string }

/** Finds the model of a read. Every user of a workspace may read its models. */
export function createMonitoredModels({ queries, access }: { queries: Queries; access: Access }) {
  return {
    /** @throws HttpError `workspaceUnknown`, `accountRestricted`, `monitoredModelUnknown` */
    async find(caller: Caller, query: ModelQuery): Promise<MonitoredModel & { workspace: Workspace }> {
      const workspace = await access.workspace(caller, query.workspaceName)
      const found = await findMonitoredModel(queries, workspace.id, query.modelName)
      if (found) return { ...found, workspace }
      throw new HttpError(
        'monitoredModelUnknown',
        `The workspace "${workspace.name}" has no model "${query.modelName.slice(0, 200)}" that has reported.`,
      )
    },

    /** @throws HttpError `accountRestricted`, `monitoredModelUnknown` */
    async findById(caller: Caller, modelId: string): Promise<MonitoredModel & { workspace: Workspace }> {
      const found = /^\d{1,18}$/.test(modelId) ? await findMonitoredModelById(queries, BigInt(modelId)) : undefined
      const workspace = found && (await findWorkspace(queries, caller.viewerId, found.workspaceName))
      if (workspace) return { id: found.id, name: found.name, workspace }
      if (found) await refuseWithheld(queries, caller, 'workspaceName', found.workspaceName)
      throw new HttpError(
        'monitoredModelUnknown',
        `modelId: there is no model "${modelId.slice(0, 200)}" that this key may use.`,
      )
    },
  }
}

export type MonitoredModels = ReturnType<typeof createMonitoredModels>
