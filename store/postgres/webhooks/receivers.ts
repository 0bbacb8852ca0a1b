import { randomUUID } from 'node:crypto'
import { insertAudit } from '../accounts/audit.ts'
import type { Secrets } from '../accounts/secrets.ts'
import type { Database, Queries } from '../database.ts'
import { createSigningSecret, placeOfHeaders, placeOfSigningSecret } from './delivery-config.ts'

/** The events that a receiver can subscribe to. */
export const triggers = [
  'MODEL_VERSION_CREATED',
  'MODEL_VERSION_DELETED',
  'MODEL_VERSION_STAGE_CHANGED',
  'MODEL_VERSION_STATUS_CHANGED',
  'MODEL_UPDATED',
  'MODEL_DELETED',
  'ALERT_FIRED',
] as const
export type Trigger = (typeof triggers)[number]

const triggersDefault: Trigger[] = ['MODEL_VERSION_STAGE_CHANGED']

/** Subscribes to every model of a workspace. No model can have this name. */
export const everyModel = '*'

/** Per workspace: one change may be delivered to all of them. */
export const receiversMax = 200

/** The settings of a receiver. An absent one keeps its value; a new receiver gets the default. */
export type ReceiverFields = {
  url: string
  name?: string | undefined
  triggers?: Trigger[] | undefined
  isGitHost?: boolean | undefined
  /** Extra headers of every delivery. */
  headers?: Record<string, string> | undefined
  /** With `headers`: the secret of the organization that is sent as Authorization. */
  secretRef?: string | undefined
}

/** A workspace has more receivers than `receiversMax`. */
export class TooManyReceivers extends Error {}

type Scope = { workspaceId: string; organizationId: string; modelName: string }

export type Receiver = {
  id: string
  workspaceId: string
  modelName: string
  url: string
  name: string | null
  triggers: Trigger[]
  isGitHost: boolean
  headerNames: string[]
  secretRef: string | null
  disabledAtMs: bigint | null
  disabledReason: string | null
}

const columns = `r.id, r.workspace_id AS "workspaceId", r.model_name AS "modelName", r.url, r.name, r.triggers,
  r.is_git_host AS "isGitHost", r.header_names AS "headerNames", r.secret_ref AS "secretRef",
  r.disabled_at_ms AS "disabledAtMs", r.disabled_reason AS "disabledReason"`

/** The receivers of a workspace, by model and address: of all its models, or those configured for one. */
export async function listReceivers(
  queries: Queries,
  { workspaceId, modelName }: { workspaceId: string; modelName: string | undefined },
): Promise<Receiver[]> {
  return await queries.rows<Receiver>(
    `SELECT ${columns} FROM webhook_receivers r WHERE r.workspace_id = $1 AND ($2::text IS NULL OR r.model_name = $2)
       AND r.removed_at_ms IS NULL ORDER BY r.model_name, r.url`,
    [workspaceId, modelName ?? null],
  )
}

type ReceiverReference = { workspaceId: string; modelName: string; url: string }

/** A receiver, locked until the transaction ends. Changes of its deliveries lock it first too. */
export async function lockReceiver(queries: Queries, reference: ReceiverReference): Promise<Receiver | undefined> {
  return await queries.row<Receiver>(
    `SELECT ${columns} FROM webhook_receivers r WHERE r.workspace_id = $1 AND r.model_name = $2 AND r.url = $3
       AND r.removed_at_ms IS NULL FOR UPDATE`,
    [reference.workspaceId, reference.modelName, reference.url],
  )
}

type Group = Scope & { receivers: ReceiverFields[] }

type Change = { groups: Group[]; how: 'merge' | 'replace'; userName: string; nowMs: number }

/**
 * Configures the receivers of each workspace and model: `merge` adds to those that exist, `replace` removes the others. Pending
 * deliveries of a removed receiver are cancelled. All in one transaction; the changes of one workspace are serialized.
 *
 * @throws TooManyReceivers
 */
export async function configureReceivers(
  { database, secrets }: { database: Database; secrets: Secrets },
  { groups, how, userName, nowMs }: Change,
): Promise<void> {
  const workspaceIds = [...new Set(groups.map((it) => it.workspaceId))]
  await database.transaction(async (queries) => {
    const workspaces = await queries.rows<{ id: string; name: string }>(
      'SELECT id, name FROM workspaces WHERE id = ANY($1) ORDER BY id FOR NO KEY UPDATE',
      [workspaceIds],
    )
    await queries.rows(
      `SELECT 1 FROM webhook_receivers WHERE workspace_id = ANY($1) AND removed_at_ms IS NULL ORDER BY id FOR UPDATE`,
      [workspaceIds],
    )
    for (const { receivers, ...scope } of groups) {
      const existing = await listReceivers(queries, scope)
      for (const fields of receivers) {
        const found = existing.find((it) => it.url === fields.url)
        const settings = { ...defaults, ...(how === 'merge' && found ? toFields(found) : {}), ...given(fields) }
        await upsertReceiver(queries, secrets, { ...scope, id: found?.id, ...settings, userName, nowMs })
      }
      if (how === 'merge') continue
      const removed = existing.filter((it) => !receivers.some(({ url }) => url === it.url)).map((it) => it.id)
      await removeReceivers(queries, removed, nowMs)
    }
    const crowded = await queries.row(
      `SELECT 1 FROM webhook_receivers WHERE workspace_id = ANY($1) AND removed_at_ms IS NULL
       GROUP BY workspace_id HAVING count(*) > $2`,
      [workspaceIds, receiversMax],
    )
    if (crowded) throw new TooManyReceivers()
    for (const { receivers, organizationId, workspaceId, modelName } of groups) {
      const workspace = workspaces.find((it) => it.id === workspaceId)
      const details = { modelName, how, hosts: receivers.map((it) => toHost(it.url)) }
      await insertAudit(queries, { organizationId, userName }, 'webhooks.set', workspace?.name ?? '', details)
    }
  })
}

/** The part of an address that may be logged: the rest often holds a token. */
export const toHost = (url: string) => new URL(url).host

type FullSettings = {
  url: string
  name: string | null
  triggers: Trigger[]
  isGitHost: boolean
  /** Undefined: unchanged. */
  headers: Record<string, string> | undefined
  secretRef: string | null
}

const defaults = { name: null, triggers: triggersDefault, isGitHost: false, headers: {}, secretRef: null }

function toFields({ name, triggers, isGitHost, secretRef }: Receiver) {
  return { name, triggers, isGitHost, secretRef, headers: undefined }
}

/** The fields that the request gave. Headers and the reference to a secret are one field of it. */
function given({ url, name, triggers, isGitHost, headers, secretRef }: ReceiverFields): Pick<FullSettings, 'url'> {
  return {
    url,
    ...(name !== undefined && { name }),
    ...(triggers !== undefined && { triggers: triggers.length === 0 ? triggersDefault : triggers }),
    ...(isGitHost !== undefined && { isGitHost }),
    ...(headers !== undefined && { headers, secretRef: secretRef ?? null }),
  }
}

type Upsert = Scope & FullSettings & { id: string | undefined; userName: string; nowMs: number }

async function upsertReceiver(queries: Queries, secrets: Secrets, receiver: Upsert) {
  const id = receiver.id ?? randomUUID()
  const { organizationId, url, name, triggers, isGitHost, headers, secretRef } = receiver
  const names = headers && Object.keys(headers).sort()
  const texts = headers ? [{ place: placeOfHeaders(id), value: JSON.stringify(headers) }] : []
  if (receiver.id !== undefined) {
    const [encrypted] = await secrets.encryptTexts(queries, organizationId, texts)
    await queries.row(
      `UPDATE webhook_receivers SET name = $2, triggers = $3, is_git_host = $4, secret_ref = $5,
         headers = coalesce($6, headers), header_names = coalesce($7, header_names) WHERE id = $1`,
      [id, name, triggers, isGitHost, secretRef, encrypted ?? null, names ?? null],
    )
    return
  }
  const signing = { place: placeOfSigningSecret(id), value: createSigningSecret() }
  const [signingSecret, encrypted] = await secrets.encryptTexts(queries, organizationId, [signing, ...texts])
  await queries.row(
    `INSERT INTO webhook_receivers (id, workspace_id, model_name, url, name, triggers, is_git_host, secret_ref, headers,
       header_names, signing_secret, user_name, created_at_ms)
     VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)`,
    [
      ...[id, receiver.workspaceId, receiver.modelName, url, name, triggers, isGitHost, secretRef, encrypted, names],
      ...[signingSecret, receiver.userName, receiver.nowMs],
    ],
  )
}

/** Removes receivers; what waits to be sent to them is cancelled. */
export async function removeReceivers(queries: Queries, ids: string[], nowMs: number) {
  if (ids.length === 0) return
  await queries.row('UPDATE webhook_receivers SET removed_at_ms = $2 WHERE id = ANY($1)', [ids, nowMs])
  await queries.row(
    `UPDATE webhook_deliveries SET state = 'cancelled', due_at_ms = NULL, ended_at_ms = $2
     WHERE receiver_id = ANY($1) AND state = 'pending'`,
    [ids, nowMs],
  )
}

/** Moves the receivers of a renamed model to its new name, except those whose address the new name has already. */
export async function renameModelOfReceivers(
  queries: Queries,
  { workspaceId, from, to }: { workspaceId: string; from: string; to: string },
): Promise<void> {
  // The same locks as `configureReceivers` takes, so that neither misses a row that the other inserts.
  await queries.row('SELECT 1 FROM workspaces WHERE id = $1 FOR NO KEY UPDATE', [workspaceId])
  await queries.rows(
    'SELECT 1 FROM webhook_receivers WHERE workspace_id = $1 AND removed_at_ms IS NULL ORDER BY id FOR UPDATE',
    [workspaceId],
  )
  await queries.row(
    `UPDATE webhook_receivers r SET model_name = $3 WHERE r.workspace_id = $1 AND r.model_name = $2
       AND r.removed_at_ms IS NULL AND NOT EXISTS (SELECT 1 FROM webhook_receivers o
         WHERE o.workspace_id = $1 AND o.model_name = $3 AND o.url = r.url AND o.removed_at_ms IS NULL AND o.id <> r.id)`,
    [workspaceId, from, to],
  )
}

/** Enables a receiver; the deliveries that waited for it become due. */
export async function enableReceiver(queries: Queries, id: string, nowMs: number): Promise<void> {
  await queries.row('UPDATE webhook_receivers SET disabled_at_ms = NULL, disabled_reason = NULL WHERE id = $1', [id])
  await queries.row("UPDATE webhook_deliveries SET due_at_ms = $2 WHERE receiver_id = $1 AND state = 'pending'", [
    id,
    nowMs,
  ])
}
