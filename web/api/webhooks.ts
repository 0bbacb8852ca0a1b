import { type QueryClient, queryOptions } from '@tanstack/react-query'
import { call, post, read } from './http.ts'

/** What a webhook is told of. */
export const triggers = [
  'MODEL_VERSION_STAGE_CHANGED',
  'MODEL_VERSION_STATUS_CHANGED',
  'MODEL_VERSION_CREATED',
  'MODEL_VERSION_DELETED',
  'MODEL_UPDATED',
  'MODEL_DELETED',
  'ALERT_FIRED',
] as const

/** The header whose value is the name of a secret of the organization, which is sent as Authorization. */
export const secretHeader = 'Authorization-Org-Secret-Ref'

export type Webhook = {
  /** Null: every model of the workspace. */
  modelName: string | null
  url: string
  name: string | null
  /** Values are hidden, except the name of a secret. */
  header: Record<string, string>
  triggers: string[]
  gitHostUrl: boolean
  enabled: boolean
  disabledReason: string | null
}

type Config = { modelName: string | null; webhookUrls: Omit<Webhook, 'modelName'>[] }

export const webhooks = (workspaceName: string) =>
  queryOptions({
    queryKey: ['webhooks', workspaceName],
    queryFn: async ({ signal }) =>
      (
        await read<{ webhookConfigs: Config[] }>('/webhooks/config', { workspaceName }, { signal })
      ).webhookConfigs.flatMap(({ modelName, webhookUrls }) =>
        webhookUrls.map((it): Webhook => ({ modelName, ...it })),
      ),
  })

/** Adds a webhook, or changes the fields given of the one with this model and address. */
export const saveWebhook = (
  workspaceName: string,
  { modelName, ...it }: Pick<Webhook, 'modelName' | 'url' | 'name' | 'triggers'> & { header?: Record<string, string> },
) => post('/webhooks/config', { webhookConfigs: [{ workspaceName, modelName, webhookUrls: [it] }] })

type Reference = { workspaceName: string; modelName: string | null; url: string }

export const deleteWebhook = (it: Reference) => post('/webhooks/delete', it)
export const testWebhook = (it: Reference) => post<{ deliveryId: string }>('/webhooks/test', it)
export const enableWebhook = (it: Reference) => post('/webhooks/enable', it)
export const makeSigningSecret = (it: Reference) =>
  post<{ signingSecret: string; oldSecretSignsUntil: number }>('/webhooks/signing-secret', it)

export type Delivery = {
  deliveryId: string
  url: string
  event: string
  registryModelName: string | null
  version: string | null
  state: 'pending' | 'delivered' | 'failed' | 'cancelled' | 'held'
  /** Milliseconds since the Unix epoch, as all times here. */
  createdAt: number
  nextAttemptAt: number | null
  attempts: { at: number; status: number | null; failure: string | null }[]
}

export type DeliveriesPage = { deliveries: Delivery[]; nextPage: string | null }

/** Which deliveries: all of a workspace, or those of a model, a version, an address, or in a state. */
export type DeliveriesAsked = {
  workspaceName: string
  modelName?: string
  version?: string
  url?: string
  state?: string
}

export const readDeliveries = (asked: DeliveriesAsked & { page?: string; pageSize?: number }, signal: AbortSignal) =>
  read<DeliveriesPage>('/webhooks/deliveries', asked, { signal })

export const redeliver = (deliveryId: string) => post('/webhooks/redeliver', { deliveryId })

export const refreshWebhooks = (client: QueryClient, workspaceName: string) =>
  Promise.all([
    client.invalidateQueries({ queryKey: ['webhooks', workspaceName] }),
    client.invalidateQueries({ queryKey: ['webhook-deliveries', workspaceName] }),
  ])

/** A secret by its name: no call tells its value. */
export type Secret = {
  secretName: string
  updatedAt: number
  /** Null: webhooks of every workspace may name it. */
  workspaceNames: string[] | null
}

export const secrets = (organizationId: string) =>
  queryOptions({
    queryKey: ['secrets', organizationId],
    queryFn: async ({ signal }) =>
      (await read<{ secrets: Secret[] }>(`/organization/${encodeURIComponent(organizationId)}/secrets`, {}, { signal }))
        .secrets,
  })

const toSecretsPath = (organizationId: string) =>
  `api/rest/v2/write/organization/${encodeURIComponent(organizationId)}/secrets`

export const saveSecret = (organizationId: string, secretName: string, secretValue: string) =>
  call('PUT', toSecretsPath(organizationId), { secretName, secretValue })

/** Null: every workspace. */
export const allowSecret = (organizationId: string, secretName: string, workspaceNames: string[] | null) =>
  call('PUT', `${toSecretsPath(organizationId)}/${encodeURIComponent(secretName)}/workspaces`, { workspaceNames })

export const deleteSecret = (organizationId: string, secretName: string) =>
  call('DELETE', `${toSecretsPath(organizationId)}/${encodeURIComponent(secretName)}`)
