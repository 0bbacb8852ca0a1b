import { z } from 'zod'
import { toJsonInteger } from '../../http/body/exact-json.ts'
import { object, optional, pageFields, text } from '../../http/body/fields.ts'
import { type Caller, type Route, route } from '../../http/route.ts'
import { findWorkspace } from '../../store/postgres/accounts/workspaces.ts'
import type { Database } from '../../store/postgres/database.ts'
import { listRegistryEvents, listVersionEvents, type RegistryEvent } from '../../store/postgres/registry/history.ts'
import { findRegistryModel } from '../../store/postgres/registry/models.ts'
import { type Access, refuseWithheld, toViewer } from '../access.ts'
import { workspaceName } from '../accounts/workspaces.ts'
import { readOnlyModel, registryFields, registryTopic, unknownModel } from './change.ts'
import { findFacts } from './find.ts'

const pageSizeMax = 1_000
const pageSizeDefault = 100
/** Limits a page: each change of notes has the old and the new notes, which may be long. */
const pageCharactersMax = 8_000_000

/** A version has few changes; the oldest of more are left out. */
const versionEventsMax = 1_000

const eventAnswer = z.object({
  action: z.string().describe('the kind of change: MODEL_RENAMED, MODEL_VERSION_CREATED, ...'),
  event: z.string().nullable().describe('the trigger of its webhooks; null if it has none'),
  workspaceName: z.string(),
  registryModelId: z.string(),
  registryModelName: z.string(),
  registryModelItemId: z.string().nullable(),
  version: z.string().nullable(),
  stages: z.array(z.string()).nullable(),
  addedStages: z.array(z.string()),
  removedStages: z.array(z.string()),
  experimentModelId: z.string().nullable(),
  experimentKey: z.string().nullable(),
  userName: z.string(),
  timestamp: z.int().describe('ms since the Unix epoch'),
  before: z.record(z.string(), z.unknown()).describe('the old values of the changed fields'),
  after: z.record(z.string(), z.unknown()).describe('their new values'),
})

const itemEventAnswer = z.object({
  actionType: z.string(),
  comment: z.string().nullable(),
  previousValue: z.record(z.string(), z.unknown()),
  newValue: z.record(z.string(), z.unknown()),
  registryModelId: z.string(),
  registryModelName: z.string(),
  registryModelItemId: z.string().nullable(),
  registryModelItemVersion: z.string().nullable(),
  userName: z.string(),
  timestamp: z.int().describe('ms since the Unix epoch'),
})

const day = new Intl.DateTimeFormat('en-US', { dateStyle: 'long', timeZone: 'UTC' })

type Query = { workspaceName: string; modelName?: string | undefined }

/** The history of the registry, for members of the workspace. */
export function createRegistryHistoryRoutes({ database, access }: { database: Database; access: Access }): Route[] {
  async function findWorkspaceId(caller: Caller, { workspaceName, modelName }: Query): Promise<string> {
    if (modelName === undefined) return (await access.workspace(caller, workspaceName)).id
    const model = await findRegistryModel(database, toViewer(caller), { workspaceName, modelName })
    if (model && !model.isMember) throw readOnlyModel()
    // A deleted model still has its history.
    const workspaceId = model?.workspaceId ?? (await findWorkspace(database, caller.viewerId, workspaceName))?.id
    if (workspaceId !== undefined) return workspaceId
    await refuseWithheld(database, caller, 'workspaceName', workspaceName)
    throw unknownModel({ workspaceName, modelName })
  }

  return [
    route({
      method: 'GET',
      path: '/registry-model/history',
      permission: 'caller',
      topic: registryTopic,
      summary:
        'Lists the changes in the registry of a workspace and who made them, newest first. `modelName` selects models of ' +
        'that name, deleted ones too. `nextPage` is the `page` to request next, or null.',
      query: object({
        workspaceName,
        modelName: optional(text(1_000, 1)),
        ...pageFields(pageSizeMax),
      }),
      answer: z.object({ events: z.array(eventAnswer), nextPage: z.string().nullable() }),
      shape: 'plain',
      async handle({ query: { page, pageSize = pageSizeDefault, ...query }, caller }) {
        const { events, hasMore } = await listRegistryEvents(database, {
          workspaceId: await findWorkspaceId(caller, query),
          modelName: query.modelName,
          beforeId: page === undefined ? undefined : BigInt(page),
          limit: pageSize,
          charactersMax: pageCharactersMax,
        })
        if (query.modelName !== undefined && page === undefined && events.length === 0) {
          throw unknownModel({ workspaceName: query.workspaceName, modelName: query.modelName })
        }
        return { events: events.map(toAnswer), nextPage: hasMore ? String(events.at(-1)?.id) : null }
      },
    }),

    route({
      method: 'POST',
      path: '/registry-model/history/item',
      charge: 'none',
      permission: 'caller',
      topic: registryTopic,
      summary:
        `Lists the changes of one version by day (UTC), newest first: the newest ${versionEventsMax} of them. For members ` +
        'of the workspace.',
      body: object({ registryModelItemId: registryFields.id, groupedBy: optional(z.literal('DAY', 'expected DAY')) }),
      answer: z.record(z.string().describe('November 16, 2023'), z.array(itemEventAnswer)),
      shape: 'plain',
      async handle({ body: { registryModelItemId }, caller }) {
        const { isMember } = await findFacts(database, caller, registryModelItemId)
        if (!isMember) await refuseWithheld(database, caller, 'registryVersionId', registryModelItemId)
        if (!isMember) throw readOnlyModel()
        const events = await listVersionEvents(database, registryModelItemId, versionEventsMax)
        return Object.fromEntries(Map.groupBy(events.map(toItemEvent), (it) => day.format(it.timestamp)))
      },
    }),
  ]
}

function toAnswer({ id: _, timestampMs, ...event }: RegistryEvent): z.input<typeof eventAnswer> {
  return { ...event, timestamp: toJsonInteger(timestampMs) }
}

function toItemEvent(event: RegistryEvent): z.output<typeof itemEventAnswer> {
  return {
    actionType: event.action,
    comment: typeof event.after.comment === 'string' ? event.after.comment : null,
    previousValue: withStatus(event.before),
    newValue: withStatus(event.after),
    registryModelId: event.registryModelId,
    registryModelName: event.registryModelName,
    registryModelItemId: event.registryModelItemId,
    registryModelItemVersion: event.version,
    userName: event.userName,
    timestamp: toJsonInteger(event.timestampMs),
  }
}

/** Clients of this call know the status by a longer name. */
const withStatus = (fields: Record<string, unknown>) =>
  fields.status === undefined ? fields : { ...fields, registryModelStatus: fields.status }
