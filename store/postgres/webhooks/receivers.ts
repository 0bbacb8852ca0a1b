import { randomBytes, randomUUID } from 'node:crypto'
import { insertAudit } from '../accounts/audit.ts'
import type { Secrets } from '../accounts/secrets.ts'
import type { Database, Queries } from '../database.ts'

/** What receivers can be told of. */
export const triggers = [
  'MODEL_VERSION_CREATED',
  'MODEL_VERSION_DELETED',
  'MODEL_VERSION_STAGE_CHANGED',
  'MODEL_UPDATED',
  'MODEL_DELETED',
  'ALERT_FIRED',
] as const
export type Trigger = (typeof triggers)[number]

const triggersDefault: Trigger[] = ['MODEL_VERSION_STAGE_CHANGED']

/** Stands for every model of a workspace; no model has this name. */
export const everyModel = '*'

/** As many as one change may have to tell. */
export const receiversMax = 200

/** What is configured of a receiver; what is absent stays as it was, or has its default. */
export type ReceiverFields = {
  url: string
  name?: string | undefined
  triggers?: Trigger[] | undefined
  isGitHost?: boolean | undefined
  /** Sent along with every delivery. */
  headers?: Record<string, string> | undefined
  /** With `headers`: the secret of the organization that is sent as Authorization. */
  secretRef?: string | undefined
}

/** A workspace has more receivers than `receiversMax`. */
export class TooManyReceivers extends Error {}

type Place = { workspaceId: string; organizationId: string; modelName: string }

type Kept = Place & {
  id: string
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

export type Receiver = Omit<Kept, 'organizationId'>

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

/** A receiver, locked until the end of the transaction: whoever changes its deliveries too locks it first. */
export async function lockReceiver(queries: Queries, reference: ReceiverReference): Promise<Receiver | undefined> {
  return await queries.row<Receiver>(
    `SELECT ${columns} FROM webhook_receivers r WHERE r.workspace_id = $1 AND r.model_name = $2 AND r.url = $3
       AND r.removed_at_ms IS NULL FOR UPDATE`,
    [reference.workspaceId, reference.modelName, reference.url],
  )
}

type Group = Place & { receivers: ReceiverFields[] }

type Change = { groups: Group[]; how: 'merge' | 'replace'; userName: string; nowMs: number }

/**
 * Configures the receivers of pairs of workspace and model: adds them to what a pair has, or puts them in its place. What
 * was to be sent to one that is gone is not sent any more. All of it is kept, or nothing; two changes of a workspace are
 * made one after the other.
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
    const kept = await queries.rows<Kept>(
      `SELECT ${columns} FROM webhook_receivers r WHERE r.workspace_id = ANY($1) AND r.removed_at_ms IS NULL
       ORDER BY r.id FOR UPDATE`,
      [workspaceIds],
    )
    for (const { receivers, ...place } of groups) {
      const workspace = workspaces.find((it) => it.id === place.workspaceId)
      await insertAudit(
        queries,
        { organizationId: place.organizationId, userName },
        'webhooks.set',
        workspace?.name ?? '',
        {
          modelName: place.modelName,
          how,
          hosts: receivers.map((it) => toHost(it.url)),
        },
      )
      const there = kept.filter((it) => it.workspaceId === place.workspaceId && it.modelName === place.modelName)
      for (const fields of receivers) {
        const found = there.find((it) => it.url === fields.url)
        const whole = { ...defaults, ...(how === 'merge' && found ? toFields(found) : {}), ...given(fields) }
        await upsertReceiver(queries, secrets, { ...place, id: found?.id, ...whole, userName, nowMs })
      }
      if (how === 'merge') continue
      const gone = there.filter((it) => !receivers.some(({ url }) => url === it.url)).map((it) => it.id)
      await removeReceivers(queries, gone, nowMs)
    }
    const crowded = await queries.row(
      `SELECT 1 FROM webhook_receivers WHERE workspace_id = ANY($1) AND removed_at_ms IS NULL
       GROUP BY workspace_id HAVING count(*) > $2`,
      [workspaceIds, receiversMax],
    )
    if (crowded) throw new TooManyReceivers()
  })
}

/** What may be told of an address: the rest of it often holds a token. */
export const toHost = (url: string) => new URL(url).host

type Whole = {
  url: string
  name: string | null
  triggers: Trigger[]
  isGitHost: boolean
  /** Undefined: they stay. */
  headers: Record<string, string> | undefined
  secretRef: string | null
}

const defaults = { name: null, triggers: triggersDefault, isGitHost: false, headers: {}, secretRef: null }

function toFields({ name, triggers, isGitHost, secretRef }: Kept) {
  return { name, triggers, isGitHost, secretRef, headers: undefined }
}

/** What was sent; the headers and the reference to a secret are one field of the request. */
function given({ url, name, triggers, isGitHost, headers, secretRef }: ReceiverFields): Pick<Whole, 'url'> {
  return {
    url,
    ...(name !== undefined && { name }),
    ...(triggers !== undefined && { triggers: triggers.length === 0 ? triggersDefault : triggers }),
    ...(isGitHost !== undefined && { isGitHost }),
    ...(headers !== undefined && { headers, secretRef: secretRef ?? null }),
  }
}

type Upsert = Place & Whole & { id: string | undefined; userName: string; nowMs: number }

async function upsertReceiver(queries: Queries, secrets: Secrets, receiver: Upsert) {
  const id = receiver.id ?? randomUUID()
  const { organizationId, url, name, triggers, isGitHost, headers, secretRef } = receiver
  const names = headers && Object.keys(headers).sort()
  const texts = headers ? [{ place: placeOfHeaders(id), value: JSON.stringify(headers) }] : []
  if (receiver.id !== undefined) {
    const [sealed] = await secrets.sealTexts(queries, organizationId, texts)
    await queries.row(
      `UPDATE webhook_receivers SET name = $2, triggers = $3, is_git_host = $4, secret_ref = $5,
         headers = coalesce($6, headers), header_names = coalesce($7, header_names) WHERE id = $1`,
      [id, name, triggers, isGitHost, secretRef, sealed ?? null, names ?? null],
    )
    return
  }
  const signing = { place: placeOfSigningSecret(id), value: createSigningSecret() }
  const [signingSecret, sealed] = await secrets.sealTexts(queries, organizationId, [signing, ...texts])
  await queries.row(
    `INSERT INTO webhook_receivers (id, workspace_id, model_name, url, name, triggers, is_git_host, secret_ref, headers,
       header_names, signing_secret, user_name, created_at_ms)
     VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)`,
    [
      ...[id, receiver.workspaceId, receiver.modelName, url, name, triggers, isGitHost, secretRef, sealed, names],
      ...[signingSecret, receiver.userName, receiver.nowMs],
    ],
  )
}

async function removeReceivers(queries: Queries, ids: string[], nowMs: number) {
  if (ids.length === 0) return
  await queries.row('UPDATE webhook_receivers SET removed_at_ms = $2 WHERE id = ANY($1)', [ids, nowMs])
  await queries.row(
    `UPDATE webhook_deliveries SET state = 'cancelled', due_at_ms = NULL, ended_at_ms = $2
     WHERE receiver_id = ANY($1) AND state = 'pending'`,
    [ids, nowMs],
  )
}

/** Receivers of a model go with it when its name changes, unless the new name has one at this address. */
export async function renameModelOfReceivers(
  queries: Queries,
  { workspaceId, from, to }: { workspaceId: string; from: string; to: string },
): Promise<void> {
  // As one who configures receivers does, so that neither meets what the other is about to make.
  await queries.row('SELECT 1 FROM workspaces WHERE id = $1 FOR NO KEY UPDATE', [workspaceId])
  await queries.rows(
    'SELECT 1 FROM webhook_receivers WHERE workspace_id = $1 AND removed_at_ms IS NULL ORDER BY id FOR UPDATE',
    [workspaceId],
  )
  await queries.row(
    `UPDATE webhook_receivers r SET model_name = $3 WHERE r.workspace_id = $1 AND r.model_name = $2
       AND r.removed_at_ms IS NULL AND NOT EXISTS (SELECT 1 FROM webhook_receivers o
         WHERE o.workspace_id = $1 AND o.model_name = $3 AND o.url = r.url AND o.removed_at_ms IS NULL)`,
    [workspaceId, from, to],
  )
}

/** How long the old signing secret signs along with a new one. */
export const oldSecretSignsForMs = 24 * 3_600_000

/** Makes a new signing secret, which is told this once; the old one signs along for a day. */
export async function replaceSigningSecret(
  queries: Queries,
  secrets: Secrets,
  { id, organizationId, nowMs }: { id: string; organizationId: string; nowMs: number },
): Promise<string> {
  const secret = createSigningSecret()
  const [sealed] = await secrets.sealTexts(queries, organizationId, [
    { place: placeOfSigningSecret(id), value: secret },
  ])
  await queries.row(
    `UPDATE webhook_receivers SET old_signing_secret = signing_secret, old_signs_until_ms = $3, signing_secret = $2
     WHERE id = $1`,
    [id, sealed, nowMs + oldSecretSignsForMs],
  )
  return secret
}

/** Sends what waited for a disabled receiver, and what comes. */
export async function enableReceiver(queries: Queries, id: string, nowMs: number): Promise<void> {
  await queries.row('UPDATE webhook_receivers SET disabled_at_ms = NULL, disabled_reason = NULL WHERE id = $1', [id])
  await queries.row("UPDATE webhook_deliveries SET due_at_ms = $2 WHERE receiver_id = $1 AND state = 'pending'", [
    id,
    nowMs,
  ])
}

/** What a delivery needs to know of its receiver, in clear text. */
export type DeliveryConfig = {
  organizationId: string
  url: string
  headers: Record<string, string>
  secretRef: string | null
  /** The present one first. */
  signingSecrets: string[]
}

type SealedDeliveryConfig = Pick<DeliveryConfig, 'organizationId' | 'url' | 'secretRef'> & {
  headers: Buffer
  signingSecret: Buffer
  oldSigningSecret: Buffer | null
  oldSignsUntilMs: bigint | null
}

/** Undefined when the receiver is gone or disabled. Fails as `Secrets.openTexts` does. */
export async function findDeliveryConfig(
  { queries, secrets }: { queries: Queries; secrets: Secrets },
  id: string,
  nowMs: number,
): Promise<DeliveryConfig | undefined> {
  const row = await queries.row<SealedDeliveryConfig>(
    `SELECT w.organization_id AS "organizationId", r.url, r.secret_ref AS "secretRef", r.headers,
       r.signing_secret AS "signingSecret", r.old_signing_secret AS "oldSigningSecret",
       r.old_signs_until_ms AS "oldSignsUntilMs"
     FROM webhook_receivers r JOIN workspaces w ON w.id = r.workspace_id
     WHERE r.id = $1 AND r.removed_at_ms IS NULL AND r.disabled_at_ms IS NULL`,
    [id],
  )
  if (!row) return undefined
  const { organizationId, url, secretRef, headers, signingSecret, oldSigningSecret, oldSignsUntilMs } = row
  const alsoSigns = oldSigningSecret && oldSignsUntilMs !== null && oldSignsUntilMs > nowMs ? [oldSigningSecret] : []
  const [openHeaders = '{}', ...signingSecrets] = await secrets.openTexts(organizationId, [
    { place: placeOfHeaders(id), value: headers },
    ...[signingSecret, ...alsoSigns].map((value) => ({ place: placeOfSigningSecret(id), value })),
  ])
  return { organizationId, url, secretRef, headers: JSON.parse(openHeaders), signingSecrets }
}

const placeOfHeaders = (id: string) => ['webhook_receivers', id, 'headers']
/** The same for the old one: it moves from column to column as it is. */
const placeOfSigningSecret = (id: string) => ['webhook_receivers', id, 'signing_secret']

const signingSecretBytes = 32

function createSigningSecret(): string {
  return `whsec_${randomBytes(signingSecretBytes).toString('base64')}`
}
