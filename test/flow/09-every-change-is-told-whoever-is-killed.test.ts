import { createServer } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, describe, expect, it } from 'vitest'
import { createClosers } from '../../runtime/closers.ts'
import { createRegistryClient } from '../kit/clients/registry.ts'
import { createWebhookClient } from '../kit/clients/webhooks.ts'
import { eventually } from '../kit/eventually.ts'
import { form, inForm, queuesInForm } from '../kit/form.ts'
import { type Answer, createClient, type TestClient } from '../kit/http/client.ts'
import { createCertificate, openReceiver, type Received } from '../kit/http/receiver.ts'
import { superviseRole } from '../kit/processes/supervised-role.ts'
import { createUser, openOwnStores, testMasterKey, uniqueName } from '../kit/service.ts'

/**
 * Stages of models change while api and workers are killed at random and started again. What the history says was changed
 * is what receivers must have heard: each change at least once and always under the same id, in order for each version.
 */
const kills = Number(process.env.SVC_TEST_WEBHOOK_KILLS ?? inForm({ short: 0, middle: 3, long: 50 }))
const models = 4
const pauseMs = 100

const closers = createClosers()
afterEach(() => closers.closeAll())

/** A proxy that counts who asks it. */
async function openProxyTrap() {
  let connections = 0
  const server = createServer((socket) => {
    connections += 1
    socket.destroy()
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  closers.push(() => new Promise((resolve) => server.close(() => resolve(undefined))))
  const { port } = server.address() as { port: number }
  return { url: `http://127.0.0.1:${port}`, connections: () => connections }
}

/** Asks until the answer is one of the service, not of its being killed. */
async function insist(ask: () => Promise<Answer>): Promise<Answer> {
  return await eventually(async () => {
    const answer = await ask()
    if (answer.status >= 500) throw new Error(`answered ${answer.status}: ${answer.text}`)
    return answer
  }, 60_000)
}

type Event = { action: string; registryModelItemId: string; addedStages: string[]; removedStages: string[] }

const toChange = (it: { addedStages: unknown; removedStages: unknown }) => `+${it.addedStages} -${it.removedStages}`

/** The changes of stages of a model, the oldest first. */
async function readHistory(client: TestClient, workspaceName: string, modelName: string): Promise<Event[]> {
  const events: Event[] = []
  let page: string | null = null
  do {
    const query = new URLSearchParams({ workspaceName, modelName, pageSize: '1000', ...(page !== null && { page }) })
    const { body } = await insist(() => client.get(`/registry-model/history?${query}`))
    events.push(...(body.events as Event[]))
    page = body.nextPage as string | null
  } while (page !== null)
  return events.filter((it) => it.action.startsWith('MODEL_VERSION_STAGE_')).reverse()
}

// In the short form `test/workers/webhooks/delivery` stops workers and takes receivers away.
describe.skipIf(form === 'short').each(queuesInForm())('with the queue in %s', (queue) => {
  it(`${kills} kills of api and workers: every change is told, under one id, in order for each version`, {
    timeout: 120_000 + kills * 10_000,
  }, async () => {
    const certificate = await createCertificate()
    const stores = await openOwnStores(queue)
    const trap = await openProxyTrap()
    const settings = {
      ...certificate.settings,
      SVC_MASTER_KEY: testMasterKey,
      SVC_QUEUE_PREFIX: uniqueName('flow'),
      SVC_LOG_LEVEL: 'error',
      NODE_USE_ENV_PROXY: '1',
      HTTPS_PROXY: trap.url,
    }
    const api = await superviseRole({ role: 'api', stores, settings, closers })
    const roles = [
      api,
      await superviseRole({ role: 'worker', stores, settings, closers }),
      await superviseRole({ role: 'worker', stores, settings, closers }),
    ]
    const user = await createUser(stores)
    const client = createClient(api.url, user)
    const registry = createRegistryClient({ ...user, url: api.url, client })
    const webhooks = createWebhookClient({ ...user, client })
    const [first, second] = await Promise.all([openReceiver(certificate), openReceiver(certificate)])
    for (const { close } of [first, second]) closers.push(close)
    const versions = []
    for (let at = 0; at < models; at++) versions.push(await registry.aModel())
    await webhooks.merge([{ url: first.url }, { url: second.url }])

    let isOver = false
    const killing = async () => {
      for (let kill = 0; kill < kills; kill++) {
        await sleep(Math.random() * 1_000)
        await roles[Math.floor(Math.random() * roles.length)]?.restart('SIGKILL')
      }
      isOver = true
    }
    let acknowledged = 0
    const changing = async ({ registryModelItemId: modelItemId }: { registryModelItemId: string }) => {
      for (let at = 0; !isOver; at++) {
        for (const path of ['/write/registry-model/item/stage', '/write/registry-model/item/stage/delete']) {
          const { status, body } = await insist(() => registry.change(path, { modelItemId, stage: `stage-${at}` }))
          // Of one that was made although its answer was lost, the repetition is refused.
          expect([status, body.sdk_error_code], path).toEqual(
            status === 200 ? [200, undefined] : [400, path.endsWith('delete') ? 8000065 : 8000064],
          )
          acknowledged += 1
          await sleep(pauseMs)
        }
      }
    }
    await Promise.all([killing(), ...versions.map(changing)])

    let told = 0
    for (const { registryModelName, registryModelItemId } of versions) {
      const history = (await readHistory(client, user.workspaceName, registryModelName)).map(toChange)
      expect(new Set(history).size).toBe(history.length)
      for (const receiver of [first, second]) {
        const heard = () => receiver.received.filter(({ json }) => json.registryModelItemId === registryModelItemId)
        await eventually(() => {
          const missing = history.length - new Set(heard().map(({ json }) => toChange(json as Event))).size
          if (missing > 0) throw new Error(`${missing} of ${history.length} changes were not told`)
        }, 120_000)
        expectInOrder(heard(), history)
      }
      told += history.length
    }
    expect(told).toBe(acknowledged)
    expect(trap.connections()).toBe(0)
    const repeated = first.received.length + second.received.length - 2 * told
    console.log(`${kills} kills: ${told} changes told to 2 receivers each, ${repeated} of them more than once`)
  })
})

/** A change may be told again, under its id and to the byte, but only before the next one. */
function expectInOrder(heard: Received[], history: string[]) {
  const changes = heard.map(({ json }) => toChange(json as Event))
  expect(changes.filter((it, at) => it !== changes[at - 1])).toEqual(history)
  const messages = Map.groupBy(heard, (it) => it.headers['webhook-id'])
  expect(messages.size).toBe(history.length)
  for (const same of messages.values()) expect(new Set(same.map((it) => it.body)).size).toBe(1)
}
