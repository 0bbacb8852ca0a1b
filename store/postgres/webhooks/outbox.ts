import type { Queries } from '../database.ts'
import { everyModel, type Trigger } from './receivers.ts'

/** The payload of a change, its fields in the order in which they are sent. */
type Notification = {
  workspaceName: string
  registryModelName: string
  version: string | null
  stages: string[]
  event: string
  addedStages: string[]
  removedStages: string[]
  registryModelId: string | null
  registryModelItemId: string | null
  experimentKey: string | null
  experimentModelId: string | null
  userName: string
  timestamp: number
  restApiUrl: string
  /** Of a changed status only. */
  status?: string
  previousStatus?: string
}

type Change = { workspaceId: string; event: Trigger; notification: Notification }

/**
 * Adds one delivery for each subscribed receiver to the outbox, in the transaction of the change. With the model locked, the
 * deliveries of one version are in the order of its changes, and so are those of the model alone.
 */
export async function insertDeliveries(queries: Queries, { workspaceId, event, notification }: Change): Promise<void> {
  const { registryModelName: modelName, registryModelItemId, registryModelId, version, timestamp } = notification
  const orderingKey = registryModelItemId ?? registryModelId
  await insertForSubscribers(queries, { workspaceId, modelName, event, orderingKey, version, timestamp, notification })
}

/** The payload of an alert that fired, its fields in the order in which they are sent. */
type AlertNotification = {
  workspaceName: string
  event: 'ALERT_FIRED'
  alertId: string
  alertName: string
  modelName: string | null
  modelVersion: string | null
  projectName: string | null
  experimentKey: string | null
  metricName: string | null
  measure: string
  comparison: string
  threshold: number
  windowFrom: number
  windowTo: number
  found: {
    feature: string | null
    part: string | null
    value: number
    experimentKey?: string
    experimentName?: string
  }[]
  foundCount: number
  timestamp: number
  /** A sentence for people: the field that chats show. */
  text: string
}

/**
 * Adds one delivery for each subscribed receiver to the outbox, in the transaction that stores the firing. Deliveries of one
 * rule are sent one after the other. Alerts on an experiment go to the receivers of the whole workspace.
 */
export async function insertAlertDeliveries(
  queries: Queries,
  { workspaceId, notification }: { workspaceId: string; notification: AlertNotification },
): Promise<void> {
  const { event, modelName, modelVersion: version, timestamp } = notification
  const orderingKey = `alert ${notification.alertId}`
  await insertForSubscribers(queries, { workspaceId, modelName, event, orderingKey, version, timestamp, notification })
}

type NewDelivery = {
  workspaceId: string
  modelName: string | null
  event: Trigger
  orderingKey: string | null
  version: string | null
  timestamp: number
  notification: Notification | AlertNotification
}

async function insertForSubscribers(queries: Queries, delivery: NewDelivery): Promise<void> {
  const { workspaceId, modelName, event, orderingKey, version, timestamp, notification } = delivery
  // Locked in a statement of its own, so that the next one sees the deliveries that others have changed meanwhile.
  const subscribers = await queries.rows<{ id: string }>(
    `SELECT r.id FROM webhook_receivers r WHERE r.workspace_id = $1 AND r.model_name IN ($2, $3)
       AND $4 = ANY(r.triggers) AND r.removed_at_ms IS NULL ORDER BY r.id FOR SHARE`,
    [workspaceId, modelName ?? everyModel, everyModel, event],
  )
  if (subscribers.length === 0) return
  await queries.row(
    `INSERT INTO webhook_deliveries (receiver_id, line, event, model_name, version, payload, created_at_ms, due_at_ms)
     SELECT r.id, $2, $3, $4, $5, CASE WHEN r.is_git_host THEN $7 ELSE $6 END, $8,
       CASE WHEN r.disabled_at_ms IS NULL THEN greatest($8, (SELECT max(d.due_at_ms) FROM webhook_deliveries d
         WHERE d.receiver_id = r.id AND d.line = $2 AND d.state = 'pending')) END
     FROM webhook_receivers r WHERE r.id = ANY($1) ORDER BY r.id`,
    [subscribers.map((it) => it.id), orderingKey, event, modelName, version, ...toPayloads(notification), timestamp],
  )
}

/** The event of a test delivery. It is sent once, and waits for no other delivery. */
export const testEvent = 'WEBHOOK_TEST'

type Test = { receiverId: string; isGitHost: boolean; workspaceName: string; userName: string; nowMs: number }

/** Adds a test delivery to the outbox. */
export async function insertTestDelivery(queries: Queries, test: Test & { modelName: string; restApiUrl: string }) {
  const { receiverId, isGitHost, workspaceName, modelName, userName, nowMs, restApiUrl } = test
  const [plain, wrapped] = toPayloads({
    workspaceName,
    registryModelName: modelName,
    version: null,
    stages: [],
    event: testEvent,
    addedStages: [],
    removedStages: [],
    registryModelId: null,
    registryModelItemId: null,
    experimentKey: null,
    experimentModelId: null,
    userName,
    timestamp: nowMs,
    restApiUrl,
  })
  const row = await queries.row<{ id: bigint; messageId: string }>(
    `INSERT INTO webhook_deliveries (receiver_id, line, event, model_name, payload, created_at_ms, due_at_ms)
     VALUES ($1, 'test ' || gen_random_uuid(), $2, $3, $4, $5, $5) RETURNING id, message_id AS "messageId"`,
    [receiverId, testEvent, modelName, isGitHost ? wrapped : plain, nowMs],
  )
  return row as { id: bigint; messageId: string }
}

/** The payload as such, and wrapped as git hosts expect it. */
function toPayloads(notification: Notification | AlertNotification): [plain: string, wrapped: string] {
  const wrapped = { event_type: notification.event, client_payload: notification }
  return [JSON.stringify(notification), JSON.stringify(wrapped)]
}
