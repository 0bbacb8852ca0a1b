import { z } from 'zod'
import { flag, isStorable, list, object, optional, text } from '../../http/body/fields.ts'
import { HttpError } from '../../http/errors.ts'
import { type PrivateHosts, parseReceiverUrl } from '../../http/outgoing/receiver-url.ts'
import { type Caller, type Route, route } from '../../http/route.ts'
import { listWithheldSecrets, type Secrets, WrongMasterKey } from '../../store/postgres/accounts/secrets.ts'
import type { Database } from '../../store/postgres/database.ts'
import {
  configureReceivers,
  everyModel,
  listReceivers,
  type Receiver,
  type ReceiverFields,
  receiversMax,
  TooManyReceivers,
  type Trigger,
  triggers,
} from '../../store/postgres/webhooks/receivers.ts'
import type { Access } from '../access.ts'
import { workspaceName } from '../accounts/workspaces.ts'
import { parseHeaders } from './headers.ts'

export const webhookTopic = 'Webhooks'

const configsMax = 100
const triggersMax = 100

/** Absent, null and * mean every model of the workspace. */
export const webhookModelName = optional(text(200, 1)).transform((name) => name ?? everyModel)

const trigger = text(100).refine(isTrigger, `must be one of ${triggers.join(', ')}`)

const headerFields = z
  .record(
    z.string(),
    z.unknown().refine((it) => it == null || typeof it === 'string', 'expected a string'),
    { error: () => 'expected an object of strings' },
  )
  .meta({ type: 'object' })
  .describe(
    'sent with every delivery. Authorization is a token; Authorization-Org-Secret-Ref names a secret of the ' +
      'organization, sent as Authorization. Send at most one of the two',
  )

const configs = object({
  webhookConfigs: list(
    object({
      workspaceName,
      modelName: webhookModelName.describe('one registered model; * or absent: every model of the workspace'),
      webhookUrls: list(
        object({
          url: text(2_000, 1),
          header: optional(headerFields),
          triggers: optional(list(trigger, triggersMax)).describe('absent or empty: MODEL_VERSION_STAGE_CHANGED'),
          name: optional(text(200)),
          gitHostUrl: optional(flag).describe('wraps the payload as {event_type, client_payload}'),
        }),
        receiversMax,
      ),
    }),
    configsMax,
  ),
})

const receiverAnswer = z.object({
  url: z.string(),
  header: z.record(z.string(), z.string()).describe('values are hidden, except the name of a secret'),
  triggers: z.array(z.string()),
  name: z.string().nullable(),
  gitHostUrl: z.boolean(),
  enabled: z.boolean(),
  disabledReason: z.string().nullable(),
})
const configAnswer = z.object({
  workspaceName: z.string(),
  modelName: z.string().nullable().describe('null: every model of the workspace'),
  webhookUrls: z.array(receiverAnswer),
})

type Deps = { database: Database; access: Access; secrets: Secrets | undefined; privateHosts: PrivateHosts }

/** The receivers of webhooks, for managers of the workspace. */
export function createWebhookRoutes({ database, access, secrets, privateHosts }: Deps): Route[] {
  async function configure(how: 'merge' | 'replace', { webhookConfigs }: z.output<typeof configs>, caller: Caller) {
    const groups = webhookConfigs.map(({ webhookUrls, ...target }, at) => ({
      ...target,
      receivers: toReceivers(webhookUrls, `webhookConfigs[${at}]`, privateHosts),
    }))
    const kept = requireSecrets(secrets)
    const byTarget = new Map<string, Parameters<typeof configureReceivers>[1]['groups'][number]>()
    for (const [at, { workspaceName, modelName, receivers }] of groups.entries()) {
      const { id: workspaceId } = await access.managedWorkspace(caller, workspaceName)
      const named = receivers.flatMap(({ secretRef }) => secretRef ?? [])
      const [withheld] = named.length === 0 ? [] : await listWithheldSecrets(database, workspaceId, named)
      if (withheld !== undefined) throw withheldSecret(withheld, workspaceName, at)
      const target = JSON.stringify([workspaceId, modelName.toLowerCase()])
      const group = byTarget.get(target) ?? {
        workspaceId,
        organizationId: caller.organizationId,
        modelName,
        receivers: [] as ReceiverFields[],
      }
      const again = receivers.findIndex(({ url }) => group.receivers.some((it) => it.url === url))
      if (again !== -1)
        throw new HttpError('badRequest', `webhookConfigs[${at}].webhookUrls[${again}].url: is there twice`)
      group.receivers.push(...receivers)
      byTarget.set(target, group)
    }
    const change = { groups: [...byTarget.values()], how, userName: caller.userName, nowMs: Date.now() }
    await configureReceivers({ database, secrets: kept }, change).catch(refuseTooMany).catch(refuseWrongKey)
  }

  return [
    route({
      method: 'POST',
      path: '/webhooks/config',
      charge: 'call',
      permission: 'caller',
      topic: webhookTopic,
      summary:
        'Adds webhook receivers to a workspace or to one registered model. A receiver with a known address is changed; ' +
        'its absent fields stay the same.',
      body: configs,
      answer: z.null(),
      shape: 'empty',
      async handle({ body, caller }) {
        await configure('merge', body, caller)
        return null
      },
    }),

    route({
      method: 'PUT',
      path: '/webhooks/config',
      charge: 'call',
      permission: 'caller',
      topic: webhookTopic,
      summary:
        'Replaces the webhook receivers of a workspace or of one registered model. A receiver with a known address keeps ' +
        'its signing secret and its pending deliveries.',
      body: configs,
      answer: z.null(),
      shape: 'empty',
      async handle({ body, caller }) {
        await configure('replace', body, caller)
        return null
      },
    }),

    route({
      method: 'GET',
      path: '/webhooks/config',
      permission: 'caller',
      topic: webhookTopic,
      summary: 'Reads the webhook receivers of a workspace or of one model. Header values are not shown.',
      query: object({ workspaceName, modelName: optional(text(200, 1)) }),
      answer: z.object({ webhookConfigs: z.array(configAnswer) }),
      shape: 'plain',
      async handle({ query, caller }) {
        const { id: workspaceId, name } = await access.managedWorkspace(caller, query.workspaceName)
        const receivers = await listReceivers(database, { workspaceId, modelName: query.modelName })
        const byModel = Map.groupBy(receivers, (it) => it.modelName.toLowerCase())
        return {
          webhookConfigs: [...byModel.values()].map((ofModel) => ({
            workspaceName: name,
            modelName: toShownName(ofModel),
            webhookUrls: ofModel.map(toAnswer),
          })),
        }
      },
    }),
  ]
}

type UrlFields = z.output<typeof configs>['webhookConfigs'][number]['webhookUrls'][number]

function toReceivers(urls: UrlFields[], within: string, privateHosts: PrivateHosts): ReceiverFields[] {
  const receivers = urls.map(({ header, gitHostUrl, triggers, name, ...it }, at) => {
    const field = `${within}.webhookUrls[${at}]`
    const url = requireUrl(it.url, `${field}.url`, privateHosts)
    const parsed = header && parseHeaders(header)
    if (parsed && 'error' in parsed) throw new HttpError('badRequest', `${field}.header: ${parsed.error}`)
    return { url, name, triggers: triggers && [...new Set(triggers)], isGitHost: gitHostUrl, ...parsed }
  })
  const twice = receivers.findIndex(({ url }, at) => receivers.findIndex((it) => it.url === url) < at)
  if (twice !== -1) throw new HttpError('badRequest', `${within}.webhookUrls[${twice}].url: is there twice`)
  return receivers
}

/** The normalized URL of a receiver. */
export function requireUrl(text: string, field: string, privateHosts: PrivateHosts): string {
  const parsed = parseReceiverUrl(text, privateHosts)
  if ('error' in parsed) throw new HttpError('badRequest', `${field}: ${parsed.error}`)
  return parsed.url
}

export function requireSecrets(secrets: Secrets | undefined): Secrets {
  if (secrets) return secrets
  throw new HttpError('secretsOff', 'Webhooks cannot be kept: the service was started without SVC_MASTER_KEY.')
}

/** The master key was replaced after this process started. */
export function refuseWrongKey(error: unknown): never {
  if (!(error instanceof WrongMasterKey)) throw error
  throw new HttpError(
    'secretsOff',
    'Webhooks cannot be kept: the service was started with a master key that is not in use.',
  )
}

function refuseTooMany(error: unknown): never {
  if (!(error instanceof TooManyReceivers)) throw error
  throw new HttpError(
    'webhooksFull',
    `webhookConfigs: a workspace has ${receiversMax} webhooks at most; remove some first.`,
  )
}

/** Shown instead of the value of a header. */
const hidden = '(set)'

function toAnswer(receiver: Receiver): z.input<typeof receiverAnswer> {
  const { url, name, triggers, isGitHost, headerNames, secretRef, disabledReason } = receiver
  return {
    url,
    header: {
      ...Object.fromEntries(headerNames.map((it) => [it, hidden])),
      ...(secretRef !== null && { 'Authorization-Org-Secret-Ref': secretRef }),
    },
    triggers,
    name,
    gitHostUrl: isGitHost,
    enabled: disabledReason === null,
    disabledReason,
  }
}

function withheldSecret(name: string, workspaceName: string, at: number): HttpError {
  return new HttpError(
    'secretWithheld',
    `webhookConfigs[${at}].webhookUrls: the secret "${name}" is not for the workspace "${workspaceName}": an admin can allow it.`,
  )
}

function isTrigger(text: string): text is Trigger {
  return isStorable(text) && (triggers as readonly string[]).includes(text)
}

/** Names that differ by case are one; null is every model. */
const toShownName = ([first]: Receiver[]) =>
  first === undefined || first.modelName === everyModel ? null : first.modelName
