import { z } from 'zod'
import { flag, list, object, optional, text } from '../../http/body/fields.ts'
import { HttpError } from '../../http/errors.ts'
import { type Route, route } from '../../http/route.ts'
import type { Database, Queries } from '../../store/postgres/database.ts'
import { listRegistryModels } from '../../store/postgres/registry/models.ts'
import {
  firstStatus,
  listRegistryStatuses,
  updateRegistryStatuses,
  updateStatusConfiguration,
} from '../../store/postgres/registry/statuses.ts'
import { type Access, toViewer } from '../access.ts'
import { workspaceName } from '../accounts/workspaces.ts'
import { changeVersion, okAnswer, registryFields, registryTopic, updateVersion } from './change.ts'
import { findFacts } from './find.ts'

const noConfiguration = { status: null, isReviewRequired: false, statusConfiguration: [], comment: null }

const statusesMax = 100
const settingsMax = 1_000

const versionPath = object({ registryModelItemId: registryFields.id })

const setting = object({ key: text(1_000, 1), value: text(100_000) })

/** @throws HttpError `badRequest`, which names the statuses of the workspace */
export async function checkStatus(queries: Queries, { workspaceId }: { workspaceId: string }, status: string) {
  const allowed = await listRegistryStatuses(queries, workspaceId)
  if (allowed.includes(status)) return
  throw new HttpError('badRequest', `status: must be one of ${allowed.join(', ')}, not "${status}"`)
}

/**
 * The status of a version: one of a list that the workspace has. A status configuration asks for a status with settings; it
 * takes effect at once, or when someone sets the status after a review.
 */
export function createRegistryStatusRoutes({
  database,
  access,
  appUrl,
}: {
  database: Database
  access: Access
  appUrl: string
}): Route[] {
  return [
    route({
      method: 'GET',
      path: '/registry-model/allowed_status_values',
      permission: 'caller',
      topic: registryTopic,
      summary: 'Lists the statuses that versions in a workspace may have, for whoever sees a registered model of it.',
      query: object({ workspaceName }),
      answer: z.object({ allowedStatus: z.array(z.string()) }),
      shape: 'plain',
      async handle({ query, caller }) {
        const [model] = await listRegistryModels(database, toViewer(caller), query.workspaceName)
        const workspaceId = model?.workspaceId ?? (await access.workspace(caller, query.workspaceName)).id
        return { allowedStatus: await listRegistryStatuses(database, workspaceId) }
      },
    }),

    route({
      method: 'POST',
      path: '/write/registry-model/allowed_status_values',
      charge: 'call',
      permission: 'caller',
      topic: registryTopic,
      summary: `Replaces the statuses of a workspace, for its owners. ${firstStatus} always stays.`,
      body: object({ workspaceName, allowedStatus: list(registryFields.status, statusesMax) }),
      answer: okAnswer,
      shape: 'text',
      async handle({ body, caller }) {
        const workspace = await access.managedWorkspace(caller, body.workspaceName)
        const statuses = [...new Set([firstStatus, ...body.allowedStatus])]
        await updateRegistryStatuses(database, workspace.id, statuses)
        return '200 Ok' as const
      },
    }),

    route({
      method: 'POST',
      path: '/write/registry-model/item/status',
      charge: 'call',
      permission: 'caller',
      topic: registryTopic,
      summary: 'Sets the status of a version.',
      body: object({ modelItemId: registryFields.id, status: registryFields.status }),
      answer: okAnswer,
      shape: 'text',
      async handle({ body: { modelItemId, status }, caller }) {
        await changeVersion({ database, caller, appUrl }, modelItemId, async (open, version) => {
          await checkStatus(open.queries, open.model, status)
          if (status !== version.status) await updateVersion(open, version, 'MODEL_VERSION_STATUS_CHANGED', { status })
        })
        return '200 Ok' as const
      },
    }),

    route({
      method: 'GET',
      path: '/registry-model/item/{registryModelItemId}/status-configuration',
      permission: 'caller',
      topic: registryTopic,
      summary: 'Reads the last status configuration of a version; its status is null when there is none.',
      params: versionPath,
      answer: z.object({
        modelItemId: z.string(),
        status: z.string().nullable(),
        isReviewRequired: z.boolean(),
        statusConfiguration: z.array(z.object({ key: z.string(), value: z.string() })),
        comment: z.string().nullable(),
      }),
      shape: 'plain',
      async handle({ params: { registryModelItemId }, caller }) {
        const { statusConfiguration } = await findFacts(database, caller, registryModelItemId)
        return { modelItemId: registryModelItemId, ...(statusConfiguration ?? noConfiguration) }
      },
    }),

    route({
      method: 'POST',
      path: '/write/registry-model/item/{registryModelItemId}/status-configuration',
      charge: 'call',
      permission: 'caller',
      topic: registryTopic,
      summary:
        'Asks for a status of a version, with settings, and replaces an earlier such request. Without a review the ' +
        'version gets the status at once; with one it keeps its own until /write/registry-model/item/status.',
      params: versionPath,
      body: object({
        status: registryFields.status,
        isReviewRequired: optional(flag),
        statusConfiguration: optional(list(setting, settingsMax)),
        comment: optional(registryFields.comment),
      }),
      answer: okAnswer,
      shape: 'text',
      async handle({ params, body, caller }) {
        await changeVersion({ database, caller, appUrl }, params.registryModelItemId, async (open, version) => {
          const { status, isReviewRequired = false, statusConfiguration = [], comment = null } = body
          await checkStatus(open.queries, open.model, status)
          const asked = { status, isReviewRequired, statusConfiguration, comment }
          await updateStatusConfiguration(open.queries, version.id, asked, open.nowMs)
          if (isReviewRequired) {
            const before = { status: version.status }
            await open.record({ action: 'MODEL_VERSION_STATUS_REQUEST_CHANGE', version, before, after: asked })
          } else if (status !== version.status) {
            await updateVersion(open, version, 'MODEL_VERSION_STATUS_CHANGED', { status })
          }
        })
        return '200 Ok' as const
      },
    }),
  ]
}
