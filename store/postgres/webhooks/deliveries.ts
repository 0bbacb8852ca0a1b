import type { Database, Queries } from '../database.ts'

/**
 * Sending from the outbox, and its log. A delivery is `pending` until it is delivered, has failed for the last time, or its
 * receiver is removed. Deliveries with the same ordering key (column `line`; the changes of one version) are sent one after the
 * other. Lock the receiver before changing its deliveries.
 */
type DeliveryState = 'pending' | 'delivered' | 'failed' | 'cancelled'

const isFirstOfOrderingKey = `NOT EXISTS (SELECT 1 FROM webhook_deliveries e WHERE e.receiver_id = d.receiver_id
  AND e.line = d.line AND e.state = 'pending' AND e.id < d.id)`

/** Receivers with a delivery that is due. */
export async function listDueReceivers(queries: Queries, nowMs: number, limit: number): Promise<string[]> {
  const rows = await queries.rows<{ id: string }>(
    `SELECT DISTINCT d.receiver_id AS id FROM webhook_deliveries d
     WHERE d.state = 'pending' AND d.due_at_ms <= $1 AND ${isFirstOfOrderingKey} LIMIT $2`,
    [nowMs, limit],
  )
  return rows.map((it) => it.id)
}

/** Longer than one attempt takes. A killed worker delays its receiver for at most so long. */
const claimSeconds = 20

/**
 * Claims a receiver for one worker, or renews its claim: only the holder sends to it.
 *
 * @returns false when another worker has it
 */
export async function claimReceiver(queries: Queries, receiverId: string, holder: string): Promise<boolean> {
  const row = await queries.row(
    `INSERT INTO webhook_rounds AS r (receiver_id, holder, until)
     SELECT id, $2, clock_timestamp() + make_interval(secs => $3) FROM webhook_receivers WHERE id = $1
     ON CONFLICT (receiver_id) DO UPDATE SET holder = excluded.holder, until = excluded.until
     WHERE r.holder = excluded.holder OR r.until < clock_timestamp() RETURNING receiver_id`,
    [receiverId, holder, claimSeconds],
  )
  return row !== undefined
}

export async function releaseReceiver(queries: Queries, receiverId: string, holder: string): Promise<void> {
  await queries.row('DELETE FROM webhook_rounds WHERE receiver_id = $1 AND holder = $2', [receiverId, holder])
}

export type DueDelivery = {
  id: bigint
  messageId: string
  event: string
  payload: string
  attempts: number
  tries: number
}

/** The due deliveries of a receiver, oldest first, at most one per ordering key. */
export async function listDueDeliveries(
  queries: Queries,
  receiverId: string,
  nowMs: number,
  limit: number,
): Promise<DueDelivery[]> {
  return await queries.rows<DueDelivery>(
    `SELECT d.id, d.message_id AS "messageId", d.event, d.payload, d.attempts, d.tries FROM webhook_deliveries d
     WHERE d.receiver_id = $1 AND d.state = 'pending' AND d.due_at_ms <= $2 AND ${isFirstOfOrderingKey}
     ORDER BY d.id LIMIT $3`,
    [receiverId, nowMs, limit],
  )
}

/** The result of an attempt, and the next state of its delivery. */
export type Attempt = {
  receiverId: string
  deliveryId: bigint
  /** The attempts before this one. Of two workers that made the same attempt, only one is recorded. */
  attempts: number
  atMs: number
  nowMs: number
  result: { status: number } | { failure: string }
  next: { state: 'delivered' | 'failed' } | { dueAtMs: number }
  /** Why the receiver is to be disabled. */
  disable?: string | undefined
}

/** Records an attempt and the next state of its delivery in one transaction. */
export async function insertAttempt(database: Database, attempt: Attempt): Promise<void> {
  const { receiverId, deliveryId, attempts, atMs, nowMs, result, next, disable } = attempt
  const state = 'state' in next ? next.state : 'pending'
  await database.transaction(async (queries) => {
    const receiver = await queries.row<{ isDisabled: boolean }>(
      `SELECT disabled_at_ms IS NOT NULL AS "isDisabled" FROM webhook_receivers WHERE id = $1 FOR NO KEY UPDATE`,
      [receiverId],
    )
    const waits = disable !== undefined || receiver?.isDisabled === true
    const dueAtMs = 'dueAtMs' in next && !waits ? next.dueAtMs : null
    const delivery = await queries.row<{ orderingKey: string }>(
      `UPDATE webhook_deliveries SET attempts = attempts + 1, tries = tries + 1,
         state = CASE WHEN state = 'pending' THEN $3 ELSE state END,
         due_at_ms = CASE WHEN state = 'pending' THEN $4::bigint END,
         ended_at_ms = CASE WHEN state = 'pending' AND $3 <> 'pending' THEN $5::bigint ELSE ended_at_ms END
       WHERE id = $1 AND attempts = $2 RETURNING line AS "orderingKey"`,
      [deliveryId, attempts, state, dueAtMs, nowMs],
    )
    if (!delivery) return
    await queries.row(
      'INSERT INTO webhook_attempts (delivery_id, number, at_ms, status, failure) VALUES ($1, $2, $3, $4, $5)',
      [
        deliveryId,
        attempts + 1,
        atMs,
        'status' in result ? result.status : null,
        'failure' in result ? result.failure : null,
      ],
    )
    if (disable !== undefined) return await disableReceiver(queries, receiverId, disable, nowMs)
    if (waits) return
    if (dueAtMs === null) await releaseNext(queries, receiverId, delivery.orderingKey, nowMs)
    else await delayOrderingKey(queries, receiverId, delivery.orderingKey, dueAtMs)
  })
}

/** Makes the next delivery of an ordering key due. One row only, or else a long backlog would cost ever more. */
async function releaseNext(queries: Queries, receiverId: string, orderingKey: string, nowMs: number) {
  await queries.row(
    `UPDATE webhook_deliveries SET due_at_ms = $3 WHERE due_at_ms > $3 AND id = (
       SELECT id FROM webhook_deliveries WHERE receiver_id = $1 AND line = $2 AND state = 'pending' ORDER BY id LIMIT 1)`,
    [receiverId, orderingKey, nowMs],
  )
}

/** While the first delivery of an ordering key waits for its retry, the others wait too. */
async function delayOrderingKey(queries: Queries, receiverId: string, orderingKey: string, dueAtMs: number) {
  await queries.row(
    `UPDATE webhook_deliveries SET due_at_ms = $3
     WHERE receiver_id = $1 AND line = $2 AND state = 'pending' AND due_at_ms < $3`,
    [receiverId, orderingKey, dueAtMs],
  )
}

async function disableReceiver(queries: Queries, receiverId: string, reason: string, nowMs: number) {
  await queries.row(
    `UPDATE webhook_receivers SET disabled_at_ms = $2, disabled_reason = $3
     WHERE id = $1 AND disabled_at_ms IS NULL AND removed_at_ms IS NULL`,
    [receiverId, nowMs, reason],
  )
  await queries.row("UPDATE webhook_deliveries SET due_at_ms = NULL WHERE receiver_id = $1 AND state = 'pending'", [
    receiverId,
  ])
}

export type LoggedDelivery = {
  id: bigint
  messageId: string
  url: string
  webhookModelName: string
  event: string
  modelName: string | null
  version: string | null
  /** Whether it waits because its receiver is disabled. */
  isHeld: boolean
  state: DeliveryState
  createdAtMs: bigint
  dueAtMs: bigint | null
  attempts: { at: number; status: number | null; failure: string | null }[]
}

type DeliveryPage = {
  workspaceId: string
  modelName: string | undefined
  version: string | undefined
  url: string | undefined
  state: DeliveryState | undefined
  beforeId: bigint | undefined
  limit: number
}

/** Deliveries of a workspace, the newest first, each with its last attempts. */
export async function listDeliveries(queries: Queries, page: DeliveryPage): Promise<LoggedDelivery[]> {
  return await queries.rows<LoggedDelivery>(
    `SELECT d.id, d.message_id AS "messageId", r.url, r.model_name AS "webhookModelName", d.event,
       d.model_name AS "modelName", d.version, d.state, d.created_at_ms AS "createdAtMs", d.due_at_ms AS "dueAtMs",
       (d.state = 'pending' AND r.disabled_at_ms IS NOT NULL) AS "isHeld",
       coalesce((SELECT json_agg(json_build_object('at', a.at_ms, 'status', a.status, 'failure', a.failure)
           ORDER BY a.number) FROM webhook_attempts a
         WHERE a.delivery_id = d.id AND a.number > d.attempts - 50), '[]') AS attempts
     FROM webhook_deliveries d JOIN webhook_receivers r ON r.id = d.receiver_id
     WHERE r.workspace_id = $1 AND ($2::text IS NULL OR d.model_name = $2) AND ($3::text IS NULL OR r.url = $3)
       AND ($4::text IS NULL OR d.state = $4) AND ($5::bigint IS NULL OR d.id < $5)
       AND ($7::text IS NULL OR d.version = $7)
     ORDER BY d.id DESC LIMIT $6`,
    [
      ...[page.workspaceId, page.modelName ?? null, page.url ?? null, page.state ?? null, page.beforeId ?? null],
      page.limit,
      page.version ?? null,
    ],
  )
}

/** The receiver and workspace of a delivery. */
export async function findDeliveryOwner(
  queries: Queries,
  id: bigint,
): Promise<{ receiverId: string; workspaceId: string } | undefined> {
  return await queries.row(
    `SELECT r.id AS "receiverId", r.workspace_id AS "workspaceId" FROM webhook_deliveries d
     JOIN webhook_receivers r ON r.id = d.receiver_id WHERE d.id = $1`,
    [id],
  )
}

/**
 * Sends a delivery again, the same bytes under the same id, as if it had never been tried; one that waits is sent at once.
 *
 * @returns whether it waits for its receiver to be enabled; undefined when the receiver is gone
 */
export async function requeueDelivery(
  queries: Queries,
  { id, receiverId, nowMs }: { id: bigint; receiverId: string; nowMs: number },
): Promise<{ isHeld: boolean } | undefined> {
  const receiver = await queries.row<{ isHeld: boolean }>(
    `SELECT disabled_at_ms IS NOT NULL AS "isHeld" FROM webhook_receivers WHERE id = $1 AND removed_at_ms IS NULL
     FOR NO KEY UPDATE`,
    [receiverId],
  )
  if (!receiver) return undefined
  await queries.row(
    `UPDATE webhook_deliveries SET state = 'pending', tries = 0, due_at_ms = $2, ended_at_ms = NULL WHERE id = $1`,
    [id, receiver.isHeld ? null : nowMs],
  )
  return receiver
}

/** How many deliveries are pending. */
export async function countPendingDeliveries(queries: Queries): Promise<number> {
  const row = await queries.row<{ count: number }>(
    "SELECT count(*)::int AS count FROM webhook_deliveries WHERE state = 'pending'",
  )
  return row?.count ?? 0
}

/** Deletes up to `limit` old deliveries that have ended or wait for a disabled receiver; answers how many. */
export async function deleteOldDeliveries(queries: Queries, beforeMs: number, limit: number): Promise<number> {
  const rows = await queries.rows(
    `DELETE FROM webhook_deliveries WHERE id IN (SELECT id FROM webhook_deliveries
       WHERE created_at_ms < $1 AND (state <> 'pending' OR due_at_ms IS NULL) LIMIT $2
       FOR UPDATE SKIP LOCKED) RETURNING id`,
    [beforeMs, limit],
  )
  return rows.length
}

/** Since when the delivery is due that has waited longest to be tried, in ms since the Unix epoch; undefined without one. */
export async function findOldestDueMs(queries: Queries, nowMs: number): Promise<number | undefined> {
  const row = await queries.row<{ dueMs: number | null }>(
    `SELECT min(d.due_at_ms)::float8 AS "dueMs" FROM webhook_deliveries d
     WHERE d.state = 'pending' AND d.due_at_ms <= $1 AND ${isFirstOfOrderingKey}`,
    [nowMs],
  )
  return row?.dueMs ?? undefined
}

/** A delivery of a firing of an alert rule, and its last attempt. */
export type Told = {
  firingId: bigint
  deliveryId: bigint
  url: string
  isHeld: boolean
  state: DeliveryState
  at: number | null
  status: number | null
}

/** The deliveries of firings, in the order in which they were added. A firing and its deliveries have the same time. */
export async function listToldOfFirings(queries: Queries, firingIds: bigint[]): Promise<Told[]> {
  if (firingIds.length === 0) return []
  return await queries.rows<Told>(
    `SELECT f.id AS "firingId", d.id AS "deliveryId", r.url, d.state,
       d.state = 'pending' AND d.due_at_ms IS NULL AS "isHeld", a.at_ms::float8 AS at, a.status
     FROM alert_firings f JOIN alert_rules u ON u.id = f.rule_id
     JOIN webhook_receivers r ON r.workspace_id = u.workspace_id
     JOIN webhook_deliveries d ON d.receiver_id = r.id AND d.line = 'alert ' || f.rule_id AND d.created_at_ms = f.fired_at_ms
     LEFT JOIN LATERAL (SELECT at_ms, status FROM webhook_attempts WHERE delivery_id = d.id
       ORDER BY number DESC LIMIT 1) a ON true
     WHERE f.id = ANY($1) ORDER BY d.id`,
    [firingIds],
  )
}
