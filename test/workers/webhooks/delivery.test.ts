import { randomUUID } from 'node:crypto'
import { Webhook } from 'standardwebhooks'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import type { StoreUrls } from '../../../cli/settings.ts'
import { createClosers } from '../../../runtime/closers.ts'
import { type Database, openDatabase } from '../../../store/postgres/database.ts'
import { claimReceiver, deleteOldDeliveries, releaseReceiver } from '../../../store/postgres/webhooks/deliveries.ts'
import { createRegistryClient } from '../../kit/clients/registry.ts'
import { createWebhookClient, type LoggedDelivery } from '../../kit/clients/webhooks.ts'
import { eventually } from '../../kit/eventually.ts'
import { queuesInForm } from '../../kit/form.ts'
import { createClient } from '../../kit/http/client.ts'
import { createCertificate, openReceiver, type Received, type Reply } from '../../kit/http/receiver.ts'
import { openOwnStores, openTestService, uniqueName } from '../../kit/service.ts'

const fileClosers = createClosers()
const closers = createClosers()
afterEach(() => closers.closeAll())
afterAll(() => fileClosers.closeAll())

describe.each(queuesInForm())('with the queue on %s', (queue) => {
  let certificate: Awaited<ReturnType<typeof createCertificate>>
  let service: Awaited<ReturnType<typeof openTestService>>
  let stores: StoreUrls
  let database: Database
  const intervals = { webhooksMs: 50, webhooksFinishMs: 500 }
  beforeAll(async () => {
    certificate = await createCertificate()
    stores = await openOwnStores(queue)
    const settings = { ...certificate.settings, SVC_QUEUE_PREFIX: uniqueName('queue') }
    service = await openTestService({ stores, settings, isAdmin: true, intervals })
    fileClosers.push(service.close)
    database = openDatabase({ url: stores.postgresUrl, onError: () => undefined })
    fileClosers.push(() => database.close())
  })

  /** A workspace of its own, so that no test hears of the changes of another. */
  async function openWorkspace() {
    const workspaceName = uniqueName('workspace')
    await service.client.post('/write/workspace/new', { name: workspaceName })
    const user = { ...service, workspaceName }
    const client = createClient(service.url, user)
    const inWorkspace = { ...user, client }
    return { workspaceName, registry: createRegistryClient(inWorkspace), webhooks: createWebhookClient(inWorkspace) }
  }

  async function aReceiver(toReply?: (received: Received, all: Received[]) => Reply) {
    const receiver = await openReceiver(certificate, toReply)
    closers.push(receiver.close)
    return receiver
  }

  /** Waits until a receiver was sent so much. */
  const eventuallyReceived = (receiver: { received: Received[] }, count: number) =>
    eventually(() => {
      if (receiver.received.length < count) throw new Error(`received ${receiver.received.length} of ${count}`)
      return receiver.received
    })

  /** What waits to be tried again is due at once. */
  const makeDue = (url: string) =>
    database.row(
      `UPDATE webhook_deliveries SET due_at_ms = 0 WHERE state = 'pending'
       AND receiver_id IN (SELECT id FROM webhook_receivers WHERE url = $1)`,
      [url],
    )

  const allDelivered = (count: number) => (all: LoggedDelivery[]) =>
    all.length === count && all.every((it) => it.state === 'delivered')

  it('a change of stages arrives with all that is to be told, signed by the secret that was made for the receiver', async () => {
    const { workspaceName, registry, webhooks } = await openWorkspace()
    const receiver = await aReceiver()
    await webhooks.add({ url: receiver.url })
    const { signingSecret } = (await webhooks.post('signing-secret', { url: receiver.url })).body
    const model = await registry.aModel({ stages: ['staging'] })
    await registry.change('/write/registry-model/item/stage', {
      modelItemId: model.registryModelItemId,
      stage: 'production',
    })

    const [it] = await eventuallyReceived(receiver, 1)

    const { body, headers } = it as Received
    expect(new Webhook(signingSecret as string).verify(body, headers as Record<string, string>)).toEqual({
      workspaceName,
      registryModelName: model.registryModelName,
      version: '1.0.0',
      stages: ['staging', 'production'],
      event: 'MODEL_VERSION_STAGE_CHANGED',
      addedStages: ['production'],
      removedStages: [],
      registryModelId: model.registryModelId,
      registryModelItemId: model.registryModelItemId,
      experimentKey: expect.stringMatching(/^\w{32}$/),
      experimentModelId: model.experimentModelId,
      userName: service.userName,
      timestamp: expect.any(Number),
      restApiUrl: expect.stringContaining('/registry-model/item/download?workspaceName='),
    })
    expect(headers).toMatchObject({ 'content-type': 'application/json', 'user-agent': expect.stringMatching(/^svc\//) })
    const [delivery] = await webhooks.deliveriesOnce(receiver.url, allDelivered(1))
    expect(delivery).toMatchObject({
      webhookId: headers['webhook-id'],
      webhookModelName: '*',
      version: '1.0.0',
      nextAttemptAt: null,
      attempts: [{ at: expect.any(Number), status: 204, failure: null }],
    })
  })

  it('a receiver hears of what it asked for, of the model it asked for, and of no other workspace', async () => {
    const { workspaceName, registry, webhooks } = await openWorkspace()
    const other = await openWorkspace()
    const [everything, stagesOnly, oneModel, elsewhere] = await Promise.all([
      aReceiver(),
      aReceiver(),
      aReceiver(),
      aReceiver(),
    ])
    const all = ['CREATED', 'DELETED', 'STAGE_CHANGED', 'STATUS_CHANGED'].map((it) => `MODEL_VERSION_${it}`)
    const triggers = [...all, 'MODEL_UPDATED', 'MODEL_DELETED']
    await webhooks.add({ url: everything.url, triggers, gitHostUrl: true })
    await webhooks.add({ url: stagesOnly.url })
    await other.webhooks.add({ url: elsewhere.url, triggers })
    const registryModelName = uniqueName('model')
    await webhooks.add({ url: oneModel.url, triggers }, registryModelName)

    const source = await registry.aSource()
    const model = await registry.aModel({ registryModelName }, source)
    const { experimentModelId } = source
    await registry.post('/write/registry-model/item', { experimentModelId, registryModelName, version: '2.0.0' })
    await registry.change('/write/registry-model/item/stage', { modelItemId: model.registryModelItemId, stage: 'a' })
    await registry.post('/write/registry-model/item/update', {
      registryModelItemId: model.registryModelItemId,
      comment: 'not told',
    })
    await registry.post('/write/registry-model/item/update', {
      registryModelItemId: model.registryModelItemId,
      stages: ['b'],
    })
    const { registryModelId } = model
    for (const status of ['QA', 'QA']) {
      await registry.post('/write/registry-model/item/status', { modelItemId: model.registryModelItemId, status })
    }
    await registry.post('/write/registry-model/update', { registryModelId, description: 'new' })
    const renamed = uniqueName('renamed')
    await registry.post('/write/registry-model/update', { registryModelId, registryModelName: renamed })
    await registry.change('/write/registry-model/item/delete', { modelItemId: model.registryModelItemId })
    await registry.change('/write/registry-model/delete', { workspaceName, modelName: renamed })
    await registry.aModel()

    const told = [
      ['MODEL_VERSION_CREATED', '1.0.0'],
      ['MODEL_VERSION_CREATED', '2.0.0'],
      ['MODEL_VERSION_STAGE_CHANGED', '1.0.0'],
      ['MODEL_VERSION_STAGE_CHANGED', '1.0.0'],
      ['MODEL_VERSION_STATUS_CHANGED', '1.0.0'],
      ['MODEL_UPDATED', null],
      ['MODEL_UPDATED', null],
      ['MODEL_VERSION_DELETED', '1.0.0'],
      ['MODEL_DELETED', null],
    ]
    const toPairs = (deliveries: LoggedDelivery[]) => deliveries.map((it) => [it.event, it.version])
    expect(toPairs(await webhooks.deliveriesOnce(everything.url, allDelivered(10)))).toEqual([
      ...told,
      ['MODEL_VERSION_CREATED', '1.0.0'],
    ])
    // It went along when its model got another name.
    expect(toPairs(await webhooks.deliveriesOnce(oneModel.url, allDelivered(9)))).toEqual(told)
    const stages = await webhooks.deliveriesOnce(stagesOnly.url, allDelivered(2))
    expect(new Set(stages.map((it) => it.event))).toEqual(new Set(['MODEL_VERSION_STAGE_CHANGED']))
    expect(elsewhere.received).toEqual([])

    for (const { json } of everything.received) {
      expect(Object.keys(json)).toEqual(['event_type', 'client_payload'])
      expect((json.client_payload as Record<string, unknown>).event).toBe(json.event_type)
    }
    const [changed] = oneModel.received.filter(({ json }) => json.event === 'MODEL_VERSION_STATUS_CHANGED')
    expect(changed?.json).toMatchObject({ status: 'QA', previousStatus: 'None', stages: ['b'], addedStages: [] })
    const changes = stagesOnly.received.map(({ json }) => [json.addedStages, json.removedStages, json.stages])
    expect(changes).toEqual([
      [['a'], [], ['a']],
      [['b'], ['a'], ['b']],
    ])
  })

  it('the changes of a version arrive in order, also when the first of them fails, and those of others do not wait', async () => {
    const { registry, webhooks } = await openWorkspace()
    const failing = { itemId: '', times: 0 }
    const receiver = await aReceiver(({ json }) => {
      const fails = json.registryModelItemId === failing.itemId && failing.times < 1
      if (fails) failing.times += 1
      return { status: fails ? 500 : 200 }
    })
    await webhooks.add({ url: receiver.url })
    const [first, second] = await Promise.all([registry.aModel(), registry.aModel()])
    failing.itemId = first.registryModelItemId
    for (const stage of ['a', 'b', 'c']) {
      for (const { registryModelItemId: modelItemId } of [first, second]) {
        await registry.change('/write/registry-model/item/stage', { modelItemId, stage })
      }
    }

    // All of the second one come before the first one is tried again.
    const isDelivered = (it: LoggedDelivery) => it.state === 'delivered'
    await webhooks.deliveriesOnce(receiver.url, (its) => its.filter(isDelivered).length === 3)
    await makeDue(receiver.url)
    const all = await webhooks.deliveriesOnce(receiver.url, allDelivered(6))

    const stagesOf = (itemId: string) =>
      receiver.received.filter(({ json }) => json.registryModelItemId === itemId).map(({ json }) => json.addedStages)
    expect(stagesOf(first.registryModelItemId)).toEqual([['a'], ['a'], ['b'], ['c']])
    expect(stagesOf(second.registryModelItemId)).toEqual([['a'], ['b'], ['c']])
    const places = receiver.received.map(({ json }) => json.registryModelItemId === first.registryModelItemId)
    expect(places.lastIndexOf(false)).toBeLessThan(places.indexOf(true, places.indexOf(true) + 1))
    const [again, sentAgain] = receiver.received.filter(
      ({ json }) => json.registryModelItemId === first.registryModelItemId,
    ) as [Received, Received]
    expect([sentAgain.body, sentAgain.headers['webhook-id']]).toEqual([again.body, again.headers['webhook-id']])
    const retried = all.find((it) => it.attempts.length === 2) as LoggedDelivery
    expect(retried.attempts.map((it) => it.status)).toEqual([500, 200])
  })

  it('a receiver that asks for time with Retry-After gets it', async () => {
    const { registry, webhooks } = await openWorkspace()
    const receiver = await aReceiver((_it, all) =>
      all.length === 1 ? { status: 503, headers: { 'retry-after': '7' } } : { status: 200 },
    )
    const busy = await aReceiver(() => ({ status: 429, headers: { 'retry-after': '3600' } }))
    await webhooks.add({ url: receiver.url })
    await webhooks.add({ url: busy.url })
    const { registryModelItemId: modelItemId } = await registry.aModel()
    await registry.change('/write/registry-model/item/stage', { modelItemId, stage: 'a' })

    const [delivery] = await webhooks.deliveriesOnce(receiver.url, allDelivered(1))
    const [first, second] = (delivery as LoggedDelivery).attempts
    expect((second?.at ?? 0) - (first?.at ?? 0)).toBeGreaterThanOrEqual(7_000)
    const [waiting] = await webhooks.deliveriesTo(busy.url)
    expect((waiting?.nextAttemptAt ?? 0) - (waiting?.attempts[0]?.at ?? 0)).toBeGreaterThanOrEqual(3_600_000)
    expect(busy.received).toHaveLength(1)
  })

  it('a receiver that is gone is disabled, with the reason shown, and gets the rest in order when it is enabled', async () => {
    const { workspaceName, registry, webhooks } = await openWorkspace()
    let isGone = true
    const receiver = await aReceiver(() => ({ status: isGone ? 410 : 200 }))
    await webhooks.add({ url: receiver.url })
    const { registryModelItemId: modelItemId } = await registry.aModel()
    for (const stage of ['a', 'b']) await registry.change('/write/registry-model/item/stage', { modelItemId, stage })
    await webhooks.deliveriesOnce(receiver.url, (all) => all.map((it) => it.state).join() === 'failed,held')
    await registry.change('/write/registry-model/item/stage', { modelItemId, stage: 'c' })

    const { webhookConfigs } = (await webhooks.read()).body as { webhookConfigs: { webhookUrls: object[] }[] }
    expect(webhookConfigs[0]?.webhookUrls).toMatchObject([
      { enabled: false, disabledReason: expect.stringMatching(/^the receiver answered 410 \(gone\) at 20/) },
    ])
    const held = await webhooks.deliveriesTo(receiver.url)
    expect(held.map((it) => [it.state, it.nextAttemptAt])).toEqual([
      ['failed', null],
      ['held', null],
      ['held', null],
    ])
    expect((await webhooks.post('test', { url: receiver.url })).body.sdk_error_code).toBe(8000082)
    const [first] = held as [LoggedDelivery]
    const again = await webhooks.post('redeliver', { deliveryId: first.deliveryId })
    expect([again.status, again.body.state]).toEqual([200, 'held'])

    isGone = false
    expect((await webhooks.post('enable', { url: receiver.url })).status).toBe(200)
    await webhooks.deliveriesOnce(receiver.url, allDelivered(3))
    expect(receiver.received.slice(1).map(({ json }) => json.addedStages)).toEqual([['a'], ['b'], ['c']])
    expect(receiver.received[1]?.headers['webhook-id']).toBe(receiver.received[0]?.headers['webhook-id'])
    const { entries } = (await service.client.get('/admin/audit')).body as { entries: object[] }
    expect(entries).toContainEqual(expect.objectContaining({ act: 'webhook.enabled', subject: workspaceName }))
  })

  it('after the last attempt of the schedule the receiver is disabled, with the reason shown', async () => {
    const { registry, webhooks } = await openWorkspace()
    const receiver = await aReceiver(() => ({ status: 500 }))
    await webhooks.add({ url: receiver.url })
    const { registryModelItemId: modelItemId } = await registry.aModel()
    await registry.change('/write/registry-model/item/stage', { modelItemId, stage: 'a' })
    // The schedule would take three days: what waits is made due as soon as it waits.
    for (let attempt = 1; attempt < 10; attempt++) {
      await webhooks.deliveriesOnce(receiver.url, ([it]) => it?.attempts.length === attempt)
      await makeDue(receiver.url)
    }

    await webhooks.deliveriesOnce(receiver.url, ([it]) => it?.state === 'failed')
    expect(receiver.received).toHaveLength(10)
    expect(new Set(receiver.received.map((it) => it.headers['webhook-id'])).size).toBe(1)
    expect((await webhooks.read()).text).toMatch(
      /"disabledReason":"10 attempts failed, the last at 20[^"]+: the receiver answered 500"/,
    )
  })

  it('forty dead receivers hold up no other: all that comes later for another is delivered while they hang', async () => {
    const { registry, webhooks } = await openWorkspace()
    const dead = await aReceiver(() => 'hang')
    const good = await aReceiver()
    const deadUrls = Array.from({ length: 40 }, (_, at) => `${dead.url}/${at}`)
    await webhooks.merge(deadUrls.map((url) => ({ url })))
    const { registryModelItemId: modelItemId } = await registry.aModel()
    await registry.change('/write/registry-model/item/stage', { modelItemId, stage: 'a' })
    await eventually(async () => {
      const reached = new Set(dead.received.map((it) => new URL(it.path, dead.url).href))
      // On a busy machine a connection may take longer than it is given, and the next attempt would be much later.
      const missing = deadUrls.filter((it) => !reached.has(it))
      await Promise.all(missing.map(makeDue))
      expect(missing).toEqual([])
    })
    await webhooks.add({ url: good.url })
    for (const stage of ['b', 'c', 'd'])
      await registry.change('/write/registry-model/item/stage', { modelItemId, stage })

    await webhooks.deliveriesOnce(good.url, allDelivered(3))

    const { deliveries } = (await webhooks.log({ pageSize: '1000' })).body as { deliveries: LoggedDelivery[] }
    const toDead = deliveries.filter((it) => it.url !== good.url)
    expect(toDead.map((it) => it.state)).toEqual(Array.from({ length: 160 }, () => 'pending'))
  })

  it('headers of the configuration are sent, and a secret is looked up when it is needed', async () => {
    const { registry, webhooks } = await openWorkspace()
    const token = await aReceiver()
    const secret = await aReceiver()
    await webhooks.add({ url: token.url, header: { Authorization: 'token of mine', 'X-Team': 'a', 'User-Agent': 'b' } })
    const secretName = uniqueName('secret')
    await webhooks.add({ url: secret.url, header: { 'Authorization-Org-Secret-Ref': secretName, 'X-Team': 'c' } })
    const { registryModelItemId: modelItemId } = await registry.aModel()
    await registry.change('/write/registry-model/item/stage', { modelItemId, stage: 'a' })

    await eventuallyReceived(token, 1)
    expect(token.received[0]?.headers).toMatchObject({
      authorization: 'token of mine',
      'x-team': 'a',
      'user-agent': 'b',
    })
    await webhooks.deliveriesOnce(secret.url, ([it]) => it?.attempts[0]?.failure === 'secret missing')
    expect(secret.received).toEqual([])

    const { body } = await service.client.get('/admin/users')
    const path = `/write/organization/${body.organizationId}/secrets`
    const put = await service.client.send('PUT', path, JSON.stringify({ secretName, secretValue: 'found at last' }))
    expect(put.status, put.text).toBe(200)
    await makeDue(secret.url)
    await webhooks.deliveriesOnce(secret.url, allDelivered(1))
    const [sent] = secret.received
    expect(sent?.headers).toMatchObject({ authorization: 'found at last', 'x-team': 'c' })
    expect(sent?.headers).not.toHaveProperty('authorization-org-secret-ref')
  })

  it('while a signing secret is replaced either one is right; the one before them is not', async () => {
    const { webhooks } = await openWorkspace()
    const receiver = await aReceiver()
    await webhooks.add({ url: receiver.url })
    const secrets: string[] = []
    for (let at = 0; at < 3; at++) {
      const { body } = await webhooks.post('signing-secret', { url: receiver.url })
      secrets.push(body.signingSecret as string)
    }
    expect(new Set(secrets).size).toBe(3)

    const test = await webhooks.post('test', { url: receiver.url })

    const [{ body, headers, json }] = (await eventuallyReceived(receiver, 1)) as [Received]
    expect([test.status, test.body.webhookId]).toEqual([200, headers['webhook-id']])
    expect(json).toMatchObject({ event: 'WEBHOOK_TEST', registryModelName: '*', version: null })
    const [oldest, old, present] = secrets.map((it) => new Webhook(it)) as [Webhook, Webhook, Webhook]
    const signed = headers as Record<string, string>
    expect(present.verify(body, signed)).toEqual(json)
    expect(old.verify(body, signed)).toEqual(json)
    expect(() => oldest.verify(body, signed)).toThrow()
    expect(headers['webhook-signature']?.toString().split(' ')).toHaveLength(2)
  })

  it('a test that fails is not repeated, and disables nothing', async () => {
    const { webhooks } = await openWorkspace()
    const receiver = await aReceiver(() => ({ status: 410 }))
    await webhooks.add({ url: receiver.url })
    await webhooks.post('test', { url: receiver.url })

    const [it] = await webhooks.deliveriesOnce(receiver.url, ([it]) => it?.state === 'failed')

    expect(it?.attempts).toMatchObject([{ status: 410 }])
    expect((await webhooks.read()).text).toContain('"enabled":true')
  })

  it('what was delivered can be sent again: the same bytes under the same id', async () => {
    const { registry, webhooks } = await openWorkspace()
    const receiver = await aReceiver()
    await webhooks.add({ url: receiver.url })
    const { registryModelItemId: modelItemId } = await registry.aModel()
    await registry.change('/write/registry-model/item/stage', { modelItemId, stage: 'a' })
    const [delivery] = await webhooks.deliveriesOnce(receiver.url, allDelivered(1))

    const again = await webhooks.post('redeliver', { deliveryId: delivery?.deliveryId })

    expect([again.status, again.body.state]).toEqual([200, 'pending'])
    const [first, second] = (await eventuallyReceived(receiver, 2)) as [Received, Received]
    expect([second.body, second.headers['webhook-id']]).toEqual([first.body, first.headers['webhook-id']])
    await webhooks.deliveriesOnce(receiver.url, ([it]) => it?.attempts.length === 2 && it.state === 'delivered')
  })

  it('a change that was refused is told to nobody', async () => {
    const { registry, webhooks } = await openWorkspace()
    const receiver = await aReceiver()
    await webhooks.add({ url: receiver.url })
    const { registryModelItemId: modelItemId } = await registry.aModel({ stages: ['a'] })

    const refused = await registry.change('/write/registry-model/item/stage', { modelItemId, stage: 'a' })
    expect(refused.status).toBe(400)
    await registry.change('/write/registry-model/item/stage', { modelItemId, stage: 'b' })

    const all = await webhooks.deliveriesOnce(receiver.url, allDelivered(1))
    expect([all.length, receiver.received.map(({ json }) => json.addedStages)]).toEqual([1, [['b']]])
  })

  it('what still waited for a receiver is not sent when it is taken out of the configuration', async () => {
    const { registry, webhooks } = await openWorkspace()
    const receiver = await aReceiver(() => ({ status: 500 }))
    await webhooks.add({ url: receiver.url })
    const { registryModelItemId: modelItemId } = await registry.aModel()
    for (const stage of ['a', 'b']) await registry.change('/write/registry-model/item/stage', { modelItemId, stage })
    await webhooks.deliveriesOnce(receiver.url, ([it]) => it?.attempts.length === 1)

    expect((await webhooks.replace([])).status).toBe(204)

    const all = await webhooks.deliveriesTo(receiver.url)
    expect(all.map((it) => [it.state, it.nextAttemptAt])).toEqual([
      ['cancelled', null],
      ['cancelled', null],
    ])
    const again = await webhooks.post('redeliver', { deliveryId: all[0]?.deliveryId })
    expect([again.status, again.body.sdk_error_code]).toEqual([400, 8000080])
  })

  it('a receiver is sent to by whoever holds its round; another has it only when that is over', async () => {
    const { webhooks } = await openWorkspace()
    await webhooks.add({ url: 'https://127.0.0.1:1/' })
    const receiver = await database.row<{ id: string }>(
      'SELECT id FROM webhook_receivers ORDER BY created_at_ms DESC LIMIT 1',
    )
    const { id } = receiver as { id: string }
    const holders = Array.from({ length: 8 }, () => randomUUID())

    const held = await Promise.all(holders.map((holder) => claimReceiver(database, id, holder)))
    expect(held.filter(Boolean)).toHaveLength(1)
    const holder = holders[held.indexOf(true)] as string
    const other = holders[held.indexOf(false)] as string
    expect([await claimReceiver(database, id, other), await claimReceiver(database, id, holder)]).toEqual([false, true])
    await releaseReceiver(database, id, other)
    expect(await claimReceiver(database, id, other)).toBe(false)
    await releaseReceiver(database, id, holder)
    expect(await claimReceiver(database, id, other)).toBe(true)
    // Its holder was killed.
    await database.row(`UPDATE webhook_rounds SET until = now() - interval '1 s' WHERE receiver_id = $1`, [id])
    expect(await claimReceiver(database, id, holder)).toBe(true)
  })

  it('a worker that stops leaves what hangs, counts no attempt, and the next one sends it under the same id', async () => {
    const ownStores = await openOwnStores(queue)
    const settings = { ...certificate.settings, SVC_QUEUE_PREFIX: uniqueName('queue') }
    const first = await openTestService({ stores: ownStores, settings, intervals })
    const receiver = await aReceiver((_it, all) => (all.length === 1 ? 'hang' : { status: 200 }))
    const webhooks = createWebhookClient(first)
    await webhooks.add({ url: receiver.url })
    await webhooks.post('test', { url: receiver.url })
    await eventuallyReceived(receiver, 1)

    await first.close()
    const second = await openTestService({ stores: ownStores, settings, intervals })
    closers.push(second.close)

    const [hung, sent] = (await eventuallyReceived(receiver, 2)) as [Received, Received]
    expect([sent.body, sent.headers['webhook-id']]).toEqual([hung.body, hung.headers['webhook-id']])
    const client = createClient(second.url, first)
    const [it] = await createWebhookClient({ ...first, client }).deliveriesOnce(receiver.url, allDelivered(1))
    expect(it?.attempts).toMatchObject([{ status: 200 }])
  })

  it('what has ended is kept for as long as it is said, and what is still to be sent for ever', async () => {
    const { registry, webhooks } = await openWorkspace()
    const [good, failing, gone] = await Promise.all([200, 500, 410].map((status) => aReceiver(() => ({ status }))))
    const urls = [good, failing, gone].map((it) => it?.url as string)
    await webhooks.merge(urls.map((url) => ({ url })))
    const { registryModelItemId: modelItemId } = await registry.aModel()
    for (const stage of ['a', 'b']) await registry.change('/write/registry-model/item/stage', { modelItemId, stage })
    const wanted = ['delivered,delivered', 'pending,pending', 'failed,held']
    for (const [at, url] of urls.entries()) {
      await webhooks.deliveriesOnce(url, (all) => {
        return all.map((it) => it.state).join() === wanted[at] && all[0]?.attempts.length === 1
      })
    }
    const isOurs = `receiver_id IN (SELECT r.id FROM webhook_receivers r WHERE r.url = ANY($1))`

    // Older than all others, and not old enough for the sweep of a service that starts meanwhile.
    const at = Date.now() - 86_400_000
    await database.row(`UPDATE webhook_deliveries SET created_at_ms = $2 WHERE ${isOurs}`, [urls, at])
    expect(await deleteOldDeliveries(database, at, 10)).toBe(0)
    expect(await deleteOldDeliveries(database, at + 1, 3)).toBe(3)
    expect(await deleteOldDeliveries(database, at + 1, 3)).toBe(1)

    const left = await Promise.all(urls.map(async (url) => (await webhooks.deliveriesTo(url)).length))
    // What is left ends at some time, and would be counted by the next one who counts.
    await database.row(`DELETE FROM webhook_deliveries WHERE ${isOurs}`, [urls])
    expect(left).toEqual([0, 2, 0])
  })

  it('counts what came of attempts, and how many wait', async () => {
    const { registry, webhooks } = await openWorkspace()
    const receivers = await Promise.all([200, 500, 410].map((status) => aReceiver(() => ({ status }))))
    await webhooks.merge(receivers.map(({ url }) => ({ url })))
    const { registryModelItemId: modelItemId } = await registry.aModel()
    await registry.change('/write/registry-model/item/stage', { modelItemId, stage: 'a' })
    for (const { url } of receivers) await webhooks.deliveriesOnce(url, ([it]) => it?.attempts.length === 1)

    const metrics = await (await fetch(`${service.url}/metrics`)).text()

    expect(metrics).toMatch(/^svc_webhook_deliveries_total\{outcome="delivered"\} [1-9]/m)
    expect(metrics).toMatch(/^svc_webhook_deliveries_total\{outcome="retried"\} [1-9]/m)
    expect(metrics).toMatch(/^svc_webhook_deliveries_total\{outcome="failed"\} [1-9]/m)
    expect(metrics).toMatch(/^svc_webhook_deliveries_pending [1-9]\d*$/m)
  })
})
