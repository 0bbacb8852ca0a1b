import type { Queries } from '../database.ts'
import { insertDeliveries } from '../webhooks/outbox.ts'
import { renameModelOfReceivers } from '../webhooks/receivers.ts'
import type { LockedModel } from './models.ts'
import type { RegistryVersion } from './versions.ts'

/** The changes of the registry and their webhook events; null for changes that send none. */
const actions = {
  MODEL_CREATED: null,
  MODEL_UPDATED: 'MODEL_UPDATED',
  MODEL_RENAMED: 'MODEL_UPDATED',
  MODEL_NOTES_CHANGED: 'MODEL_UPDATED',
  MODEL_TAGS_CHANGED: null,
  MODEL_ALIASES_CHANGED: null,
  MODEL_DELETED: 'MODEL_DELETED',
  MODEL_VERSION_CREATED: 'MODEL_VERSION_CREATED',
  MODEL_VERSION_UPDATED: null,
  MODEL_VERSION_STAGES_CHANGED: 'MODEL_VERSION_STAGE_CHANGED',
  MODEL_VERSION_STAGE_ADDED: 'MODEL_VERSION_STAGE_CHANGED',
  MODEL_VERSION_STAGE_REMOVED: 'MODEL_VERSION_STAGE_CHANGED',
  MODEL_VERSION_STATUS_CHANGED: 'MODEL_VERSION_STATUS_CHANGED',
  MODEL_VERSION_STATUS_REQUEST_CHANGE: null,
  MODEL_VERSION_METADATA_CHANGED: null,
  MODEL_VERSION_DELETED: 'MODEL_VERSION_DELETED',
} as const

export type RegistryAction = keyof typeof actions

/** One change of the registry. */
export type RegistryChange = {
  action: RegistryAction
  /** After the change; for a deletion, before it. */
  model: Pick<LockedModel, 'id' | 'workspaceId' | 'workspaceName' | 'name'>
  /** As `model`; absent if only the model changed. */
  version?: Pick<RegistryVersion, 'id' | 'version' | 'stages' | 'experimentModelId' | 'experimentKey'>
  /** The stages before the change, when it changed them. */
  stagesBefore?: string[]
  userName: string
  nowMs: number
  /** The download address of the version's files, or of the newest version's. */
  restApiUrl: string
  /** The changed fields, by their names in answers. */
  before: Record<string, unknown>
  after: Record<string, unknown>
}

/**
 * Records a change and adds its webhook deliveries to the outbox, in the transaction of the change. All registry changes
 * call this while their model is locked, so webhooks report every committed change, in order, and no other.
 */
export async function recordRegistryChange(queries: Queries, change: RegistryChange): Promise<void> {
  const { model, version } = change
  const stages = version?.stages ?? []
  const stagesBefore = change.stagesBefore ?? stages
  const addedStages = stages.filter((it) => !stagesBefore.includes(it))
  const removedStages = stagesBefore.filter((it) => !stages.includes(it))
  const event = actions[change.action]
  await queries.row(
    `INSERT INTO registry_events (workspace_id, model_id, model_name, user_name, at_ms, action, event, version_id, version,
       stages, added_stages, removed_stages, experiment_model_id, experiment_key, before, after)
     VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)`,
    [
      model.workspaceId,
      model.id,
      model.name,
      change.userName,
      change.nowMs,
      change.action,
      event,
      version?.id ?? null,
      version?.version ?? null,
      version?.stages ?? null,
      addedStages,
      removedStages,
      version?.experimentModelId ?? null,
      version?.experimentKey ?? null,
      change.before,
      change.after,
    ],
  )
  const { workspaceId, workspaceName, name } = model
  if (change.action === 'MODEL_RENAMED') {
    await renameModelOfReceivers(queries, { workspaceId, from: String(change.before.registryModelName), to: name })
  }
  if (event === null) return
  await insertDeliveries(queries, {
    workspaceId,
    event,
    notification: {
      workspaceName,
      registryModelName: name,
      version: version?.version ?? null,
      stages,
      event,
      addedStages,
      removedStages,
      registryModelId: model.id,
      registryModelItemId: version?.id ?? null,
      experimentKey: version?.experimentKey ?? null,
      experimentModelId: version?.experimentModelId ?? null,
      userName: change.userName,
      timestamp: change.nowMs,
      restApiUrl: change.restApiUrl,
      ...(event === 'MODEL_VERSION_STATUS_CHANGED' && {
        status: String(change.after.status),
        previousStatus: String(change.before.status),
      }),
    },
  })
}

export type RegistryEvent = {
  id: bigint
  action: RegistryAction
  event: string | null
  workspaceName: string
  registryModelId: string
  registryModelName: string
  registryModelItemId: string | null
  version: string | null
  stages: string[] | null
  addedStages: string[]
  removedStages: string[]
  experimentModelId: string | null
  experimentKey: string | null
  userName: string
  timestampMs: bigint
  before: Record<string, unknown>
  after: Record<string, unknown>
}

const eventColumns = `e.id, e.action, e.event, w.name AS "workspaceName", e.model_id AS "registryModelId",
  e.model_name AS "registryModelName", e.version_id AS "registryModelItemId", e.version, e.stages,
  e.added_stages AS "addedStages", e.removed_stages AS "removedStages", e.experiment_model_id AS "experimentModelId",
  e.experiment_key AS "experimentKey", e.user_name AS "userName", e.at_ms AS "timestampMs", e.before, e.after`

type EventPage = {
  workspaceId: string
  /** Absent: of all models. */
  modelName: string | undefined
  /** Absent: from the newest. */
  beforeId: bigint | undefined
  limit: number
  /** A page ends early when its changes are longer than this; it always has at least one event. */
  charactersMax: number
}

/**
 * The registry changes of a workspace, newest first: of all models, or of those that have a name or had it when they were
 * deleted. `hasMore`: there are older ones.
 */
export async function listRegistryEvents(
  queries: Queries,
  page: EventPage,
): Promise<{ events: RegistryEvent[]; hasMore: boolean }> {
  const rows = await queries.rows<RegistryEvent & { found: bigint }>(
    `WITH recent AS (
       SELECT * FROM registry_events e
       WHERE e.workspace_id = $1 AND ($3::bigint IS NULL OR e.id < $3) AND ($2::text IS NULL OR e.model_id IN (
         SELECT m.id FROM registry_models m WHERE m.workspace_id = $1 AND m.name = $2
         UNION SELECT d.model_id FROM registry_events d
           WHERE d.workspace_id = $1 AND d.model_name = $2 AND d.action = 'MODEL_DELETED'))
       ORDER BY e.id DESC LIMIT $4 + 1),
     sized AS (
       SELECT *, row_number() OVER newest_first AS number, count(*) OVER () AS found,
         sum(length(before::text) + length(after::text)) OVER newest_first AS characters
       FROM recent WINDOW newest_first AS (ORDER BY id DESC))
     SELECT ${eventColumns}, e.found
     FROM sized e JOIN workspaces w ON w.id = e.workspace_id
     WHERE e.number <= $4 AND (e.number = 1 OR e.characters <= $5) ORDER BY e.id DESC`,
    [page.workspaceId, page.modelName ?? null, page.beforeId ?? null, page.limit, page.charactersMax],
  )
  const events = rows.map(({ found: _, ...event }) => event)
  return { events, hasMore: (rows[0]?.found ?? 0n) > rows.length }
}

/** The changes of one version, newest first. */
export async function listVersionEvents(queries: Queries, versionId: string, limit: number): Promise<RegistryEvent[]> {
  return await queries.rows<RegistryEvent>(
    `SELECT ${eventColumns} FROM registry_events e JOIN workspaces w ON w.id = e.workspace_id
     WHERE e.model_id = (SELECT model_id FROM registry_versions WHERE id = $1) AND e.version_id = $1
     ORDER BY e.id DESC LIMIT $2`,
    [versionId, limit],
  )
}
