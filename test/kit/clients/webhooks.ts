import { eventually } from '../eventually.ts'
import type { TestClient } from '../http/client.ts'

export type LoggedDelivery = {
  deliveryId: string
  webhookId: string
  url: string
  webhookModelName: string
  event: string
  registryModelName: string
  version: string | null
  state: string
  createdAt: number
  nextAttemptAt: number | null
  attempts: { at: number; status: number | null; failure: string | null }[]
}

type Url = { url: string } & Record<string, unknown>

/** The webhooks of one workspace. */
export function createWebhookClient({ client, workspaceName }: { client: TestClient; workspaceName: string }) {
  const toBody = (webhookUrls: Url[], modelName?: string | null) => ({
    webhookConfigs: [{ workspaceName, ...(modelName !== undefined && { modelName }), webhookUrls }],
  })
  const webhooks = {
    merge: (urls: Url[], modelName?: string | null) => client.post('/webhooks/config', toBody(urls, modelName)),
    replace: (urls: Url[], modelName?: string | null) =>
      client.send('PUT', '/webhooks/config', JSON.stringify(toBody(urls, modelName))),
    read: (modelName?: string) =>
      client.get(`/webhooks/config?${new URLSearchParams({ workspaceName, ...(modelName && { modelName }) })}`),
    post: (path: string, fields: Record<string, unknown>) =>
      client.post(`/webhooks/${path}`, { workspaceName, ...fields }),
    log: (query: Record<string, string> = {}) =>
      client.get(`/webhooks/deliveries?${new URLSearchParams({ workspaceName, ...query })}`),

    /** Configures a receiver of stage changes, or of what is asked for. */
    async add(url: Url, modelName?: string) {
      const answer = await webhooks.merge([url], modelName)
      if (answer.status !== 204) throw new Error(`webhooks/config answered ${answer.status}: ${answer.text}`)
    },

    /** What was sent to a receiver, the oldest first. */
    async deliveriesTo(url: string): Promise<LoggedDelivery[]> {
      const answer = await webhooks.log({ url, pageSize: '1000' })
      if (answer.status !== 200) throw new Error(`webhooks/deliveries answered ${answer.status}: ${answer.text}`)
      return (answer.body.deliveries as LoggedDelivery[]).reverse()
    },

    /** The deliveries to a receiver, once they are as they should be. */
    async deliveriesOnce(url: string, isAsWanted: (all: LoggedDelivery[]) => boolean, withinMs?: number) {
      return await eventually(async () => {
        const all = await webhooks.deliveriesTo(url)
        if (!isAsWanted(all)) throw new Error(`deliveries are ${JSON.stringify(all)}`)
        return all
      }, withinMs)
    },
  }
  return webhooks
}
