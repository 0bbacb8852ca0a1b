import { z } from 'zod'
import { toJsonInteger } from '../../http/body/exact-json.ts'
import { object, optional, pageFields, text } from '../../http/body/fields.ts'
import { HttpError } from '../../http/errors.ts'
import { anyHost } from '../../http/outgoing/receiver-url.ts'
import { type Caller, type Route, route } from '../../http/route.ts'
import { insertAudit } from '../../store/postgres/accounts/audit.ts'
import type { Secrets } from '../../store/postgres/accounts/secrets.ts'
import type { Database, Queries } from '../../store/postgres/database.ts'
import {
  findDeliveryOwner,
  type LoggedDelivery,
  listDeliveries,
  requeueDelivery,
} from '../../store/postgres/webhooks/deliveries.ts'
import { oldSecretSignsForMs, replaceSigningSecret } from '../../store/postgres/webhooks/delivery-config.ts'
import { insertTestDelivery } from '../../store/postgres/webhooks/outbox.ts'
import {
  enableReceiver,
  lockReceiver,
  type Receiver,
  removeReceivers,
  toHost,
} from '../../store/postgres/webhooks/receivers.ts'
import type { Access } from '../access.ts'
import { workspaceName } from '../accounts/workspaces.ts'
import { toDownloadUrl } from '../registry/answers.ts'
import { refuseWrongKey, requireSecrets, requireUrl, webhookTopic as topic, webhookModelName } from './receivers.ts'

const pageSizeMax = 1_000
const pageSizeDefault = 100

const receiver = {
  workspaceName,
  modelName: webhookModelName.describe('as it was configured; * or absent: every model of the workspace'),
  url: text(2_000, 1),
}

const states = ['pending', 'delivered', 'failed', 'cancelled'] as const
const ms = z.int().describe('ms since the Unix epoch')

const deliveryAnswer = z.object({
  deliveryId: z.string(),
  webhookId: z.string().describe('the header webhook-id: the same for every attempt'),
  url: z.string(),
  webhookModelName: z.string().describe('the model of the webhook; * is every model'),
  event: z.string(),
  registryModelName: z.string().nullable(),
  version: z.string().nullable(),
  state: z.enum([...states, 'held']).describe('held: waits until the webhook is enabled'),
  createdAt: ms,
  nextAttemptAt: ms.nullable(),
  attempts: z
    .array(
      z.object({
        at: ms,
        status: z.int().nullable().describe('the HTTP status of the answer'),
        failure: z.string().nullable().describe('why it failed'),
      }),
    )
    .describe('the last 50'),
})

type Deps = {
  database: Database
  reads: Queries
  access: Access
  secrets: Secrets | undefined
  appUrl: string
}

type Reference = { workspaceName: string; modelName: string; url: string }

/** Deliveries of webhooks: the log, tests, repetitions and signing secrets; for managers of the workspace. */
export function createWebhookDeliveryRoutes({ database, reads, access, secrets, appUrl }: Deps): Route[] {
  /** Runs `work` with a locked receiver. */
  async function withReceiver<T>(
    caller: Caller,
    reference: Reference,
    work: (queries: Queries, receiver: Receiver) => Promise<T>,
  ): Promise<T> {
    const workspace = await access.managedWorkspace(caller, reference.workspaceName)
    const { modelName } = reference
    const url = requireUrl(reference.url, 'url', anyHost)
    return await database.transaction(async (queries) => {
      const found = await lockReceiver(queries, { workspaceId: workspace.id, modelName, url })
      if (found) return await work(queries, found)
      throw new HttpError(
        'webhookUnknown',
        `url: the workspace has no such webhook for ${modelName === '*' ? 'every model' : `the model "${modelName}"`}; ` +
          'GET /webhooks/config lists them.',
      )
    })
  }

  return [
    route({
      method: 'POST',
      path: '/webhooks/signing-secret',
      charge: 'call',
      permission: 'caller',
      topic,
      summary:
        'Creates a new signing secret for a receiver and shows it only once. For 24 hours deliveries are signed with the ' +
        'old secret too, by Standard Webhooks.',
      body: object(receiver),
      answer: z.object({ signingSecret: z.string(), oldSecretSignsUntil: ms }),
      shape: 'envelope',
      async handle({ body, caller }) {
        const kept = requireSecrets(secrets)
        return await withReceiver(caller, body, async (queries, { id }) => {
          const nowMs = Date.now()
          const { organizationId } = caller
          const signingSecret = await replaceSigningSecret(queries, kept, { id, organizationId, nowMs })
          await insertAudit(queries, caller, 'webhook-secret.made', body.workspaceName, { host: toHost(body.url) })
          return { signingSecret, oldSecretSignsUntil: nowMs + oldSecretSignsForMs }
        }).catch(refuseWrongKey)
      },
    }),

    route({
      method: 'POST',
      path: '/webhooks/test',
      charge: 'call',
      permission: 'caller',
      topic,
      summary: 'Sends a receiver one empty test event, WEBHOOK_TEST. The delivery log shows the outcome.',
      body: object(receiver),
      answer: z.object({ deliveryId: z.string(), webhookId: z.string() }),
      shape: 'envelope',
      async handle({ body, caller }) {
        return await withReceiver(caller, body, async (queries, { id: receiverId, isGitHost, disabledReason }) => {
          if (disabledReason !== null) {
            throw new HttpError('webhookDisabled', `url: the webhook is disabled (${disabledReason}); enable it first.`)
          }
          const { workspaceName, modelName } = body
          const { id, messageId } = await insertTestDelivery(queries, {
            receiverId,
            isGitHost,
            workspaceName,
            modelName,
            userName: caller.userName,
            nowMs: Date.now(),
            restApiUrl: toDownloadUrl(appUrl, { workspaceName, name: modelName }, undefined),
          })
          return { deliveryId: String(id), webhookId: messageId }
        })
      },
    }),

    route({
      method: 'POST',
      path: '/webhooks/enable',
      charge: 'call',
      permission: 'caller',
      topic,
      summary: 'Enables a disabled receiver and sends its waiting deliveries in order.',
      body: object(receiver),
      answer: z.object({ msg: z.string() }),
      shape: 'envelope',
      async handle({ body, caller }) {
        await withReceiver(caller, body, async (queries, { id, disabledReason }) => {
          if (disabledReason === null) return
          await enableReceiver(queries, id, Date.now())
          await insertAudit(queries, caller, 'webhook.enabled', body.workspaceName, { host: toHost(body.url) })
        })
        return { msg: 'Enabled' }
      },
    }),

    route({
      method: 'POST',
      path: '/webhooks/delete',
      charge: 'call',
      permission: 'caller',
      topic,
      summary: 'Deletes a receiver. Its pending deliveries are cancelled; the delivery log keeps what was sent.',
      body: object(receiver),
      answer: z.object({ msg: z.string() }),
      shape: 'envelope',
      async handle({ body, caller }) {
        await withReceiver(caller, body, async (queries, { id }) => {
          await removeReceivers(queries, [id], Date.now())
          const { modelName, workspaceName } = body
          await insertAudit(queries, caller, 'webhook.deleted', workspaceName, { modelName, host: toHost(body.url) })
        })
        return { msg: 'Deleted' }
      },
    }),

    route({
      method: 'POST',
      path: '/webhooks/redeliver',
      charge: 'call',
      permission: 'caller',
      topic,
      summary: 'Sends a delivery again: the same bytes and webhook-id, with a full set of attempts.',
      body: object({ deliveryId: text(100, 1) }),
      answer: z.object({ msg: z.string(), state: z.enum(['pending', 'held']) }),
      shape: 'envelope',
      async handle({ body: { deliveryId }, caller }) {
        const unknown = new HttpError(
          'deliveryUnknown',
          `deliveryId: there is no delivery ${deliveryId} that this key may send again.`,
        )
        const id = /^\d{1,18}$/.test(deliveryId) ? BigInt(deliveryId) : undefined
        const owner = id === undefined ? undefined : await findDeliveryOwner(database, id)
        if (id === undefined || !owner || !(await access.manages(caller, owner.workspaceId))) throw unknown
        const { receiverId } = owner
        const queued = await database.transaction((queries) =>
          requeueDelivery(queries, { id, receiverId, nowMs: Date.now() }),
        )
        if (!queued) throw new HttpError('webhookUnknown', 'deliveryId: its webhook was deleted')
        return { msg: 'Queued', state: queued.isHeld ? ('held' as const) : ('pending' as const) }
      },
    }),

    route({
      method: 'GET',
      path: '/webhooks/deliveries',
      permission: 'caller',
      topic,
      summary:
        'Lists the deliveries to the receivers of a workspace and their outcome, newest first. Deliveries are kept for 30 ' +
        'days. `nextPage` is the `page` to request next, or null.',
      query: object({
        workspaceName,
        modelName: optional(text(200, 1)).describe('changes of this model only'),
        version: optional(text(99, 1)).describe('changes of this version only'),
        url: optional(text(2_000, 1)).describe('deliveries to this address only'),
        state: optional(z.enum(states, `must be one of ${states.join(', ')}`)),
        ...pageFields(pageSizeMax),
      }),
      answer: z.object({ deliveries: z.array(deliveryAnswer), nextPage: z.string().nullable() }),
      shape: 'plain',
      async handle({ query, caller }) {
        const { id: workspaceId } = await access.managedWorkspace(caller, query.workspaceName)
        const { modelName, version, state, page, pageSize = pageSizeDefault } = query
        const url = query.url === undefined ? undefined : requireUrl(query.url, 'url', anyHost)
        const beforeId = page === undefined ? undefined : BigInt(page)
        const filter = { workspaceId, modelName, version, url, state, beforeId, limit: pageSize + 1 }
        const found = await listDeliveries(reads, filter)
        const shown = found.slice(0, pageSize)
        const nextPage = found.length > pageSize ? String(shown.at(-1)?.id) : null
        return { deliveries: shown.map(toAnswer), nextPage }
      },
    }),
  ]
}

function toAnswer(delivery: LoggedDelivery): z.input<typeof deliveryAnswer> {
  const { id, messageId, url, webhookModelName, event, modelName, version, isHeld, state, attempts } = delivery
  const { createdAtMs, dueAtMs } = delivery
  return {
    deliveryId: String(id),
    webhookId: messageId,
    url,
    webhookModelName,
    event,
    registryModelName: modelName,
    version,
    state: isHeld ? 'held' : state,
    createdAt: toJsonInteger(createdAtMs),
    nextAttemptAt: state !== 'pending' || dueAtMs === null ? null : toJsonInteger(dueAtMs),
    attempts,
  }
}
