import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Role } from '../../../cli/service.ts'
import { openDatabase } from '../../../store/postgres/database.ts'
import { createRegistryClient } from '../../kit/clients/registry.ts'
import { createWebhookClient, type LoggedDelivery } from '../../kit/clients/webhooks.ts'
import { createClient, type TestClient } from '../../kit/http/client.ts'
import { createUser, openOwnStores, openTestService, uniqueName } from '../../kit/service.ts'
import { codes, expectRefusal } from '../http-error.ts'

/** Without a worker: what is to be sent stays in the outbox, where it can be looked at. */
const roles = new Set<Role>(['ingest', 'api'])

let service: Awaited<ReturnType<typeof openTestService>>
let stranger: TestClient
let colleague: ReturnType<typeof createWebhookClient>
let adminOnly: ReturnType<typeof createWebhookClient>
beforeAll(async () => {
  const stores = await openOwnStores('postgres')
  service = await openTestService({ stores, roles })
  stranger = createClient(service.url, await createUser(stores))
  const database = openDatabase({ url: stores.postgresUrl, connectionsMax: 1, onError: () => undefined })
  const inOrganization = async (isAdmin: boolean) => {
    const user = await createUser(stores, { isAdmin })
    await database.row(
      `UPDATE users SET organization_id = (SELECT organization_id FROM users WHERE user_name = $2) WHERE user_name = $1`,
      [user.userName, service.userName],
    )
    return user
  }
  const { url, workspaceName, client } = service
  const member = await inOrganization(false)
  await client.post('/write/add-workspace-member', { workspaceName, userName: member.userName, admin: false })
  colleague = createWebhookClient({ client: createClient(url, member), workspaceName })
  adminOnly = createWebhookClient({ client: createClient(url, await inOrganization(true)), workspaceName })
  await database.close()
})
afterAll(() => service?.close())

/** A workspace of its own. */
async function openWorkspace() {
  const workspaceName = uniqueName('workspace')
  await service.client.post('/write/workspace/new', { name: workspaceName })
  const inWorkspace = { ...service, workspaceName, client: createClient(service.url, { ...service, workspaceName }) }
  return {
    workspaceName,
    client: inWorkspace.client,
    webhooks: createWebhookClient(inWorkspace),
    registry: createRegistryClient(inWorkspace),
  }
}
type Shown = { workspaceName: string; modelName: string | null; webhookUrls: Record<string, unknown>[] }
const shown = async (webhooks: ReturnType<typeof createWebhookClient>, modelName?: string) =>
  (await webhooks.read(modelName)).body.webhookConfigs as Shown[]
const urlsOf = (configs: Shown[]) => configs.flatMap((it) => it.webhookUrls.map(({ url }) => [it.modelName, url]))

const a = 'https://a.invalid/hook'
const b = 'https://b.invalid/hook'

describe('the configuration', () => {
  it('answers 204 without a body, and is read without the values of headers', async () => {
    const { workspaceName, webhooks } = await openWorkspace()

    const answer = await webhooks.merge([
      {
        url: 'HTTPS://A.invalid:443/hook#x',
        header: { Authorization: 'very secret', 'X-Team': 'also secret' },
        triggers: ['MODEL_VERSION_CREATED', 'MODEL_VERSION_CREATED'],
        name: 'a name',
        gitHostUrl: true,
      },
      { url: b, header: { 'Authorization-Org-Secret-Ref': 'name of a secret' } },
    ])

    expect([answer.status, answer.text, answer.headers.get('content-type')]).toEqual([204, '', null])
    expect(await shown(webhooks)).toEqual([
      {
        workspaceName,
        modelName: null,
        webhookUrls: [
          {
            url: a,
            header: { Authorization: '(set)', 'X-Team': '(set)' },
            triggers: ['MODEL_VERSION_CREATED'],
            name: 'a name',
            gitHostUrl: true,
            enabled: true,
            disabledReason: null,
          },
          {
            url: b,
            header: { 'Authorization-Org-Secret-Ref': 'name of a secret' },
            triggers: ['MODEL_VERSION_STAGE_CHANGED'],
            name: null,
            gitHostUrl: false,
            enabled: true,
            disabledReason: null,
          },
        ],
      },
    ])
  })

  it('POST adds receivers, and changes the given fields of existing ones', async () => {
    const { webhooks } = await openWorkspace()
    await webhooks.merge([{ url: a, name: 'first', header: { 'X-A': 'a' }, triggers: ['MODEL_DELETED'] }], 'model')

    await webhooks.merge([{ url: a, name: 'second' }, { url: b }], 'model')

    expect(await shown(webhooks, 'model')).toMatchObject([
      {
        modelName: 'model',
        webhookUrls: [{ url: a, name: 'second', header: { 'X-A': '(set)' }, triggers: ['MODEL_DELETED'] }, { url: b }],
      },
    ])
    await webhooks.merge([{ url: a, header: {}, triggers: [] }], 'model')
    expect((await shown(webhooks, 'model'))[0]?.webhookUrls[0]).toMatchObject({
      name: 'second',
      header: {},
      triggers: ['MODEL_VERSION_STAGE_CHANGED'],
    })
  })

  it('PUT replaces only the receivers of the workspace and model', async () => {
    const { webhooks } = await openWorkspace()
    await webhooks.merge([{ url: a, name: 'first' }])
    await webhooks.merge([{ url: a }, { url: b }], 'model')
    await webhooks.merge([{ url: a }], 'other')

    const answer = await webhooks.replace([{ url: b }], 'model')

    expect([answer.status, answer.text]).toEqual([204, ''])
    const expected = [
      [null, a],
      ['model', b],
      ['other', a],
    ]
    expect(urlsOf(await shown(webhooks))).toEqual(expected)
    await webhooks.replace([{ url: a }])
    expect((await shown(webhooks))[0]?.webhookUrls[0]).toMatchObject({ url: a, name: null })
    await webhooks.replace([], 'model')
    expect(urlsOf(await shown(webhooks))).toEqual([expected[0], expected[2]])
  })

  it.each([[undefined], [null], ['*']])('with the model name %s it covers every model', async (modelName) => {
    const { webhooks, registry } = await openWorkspace()
    await webhooks.merge([{ url: a, triggers: ['MODEL_VERSION_CREATED'] }], modelName as string | null)
    const { registryModelName } = await registry.aModel()

    expect(await webhooks.deliveriesTo(a)).toMatchObject([{ event: 'MODEL_VERSION_CREATED', registryModelName }])
    expect(urlsOf(await shown(webhooks))).toEqual([[null, a]])
    expect(urlsOf(await shown(webhooks, '*'))).toEqual([[null, a]])
  })

  it('of several workspaces and models is stored whole or not at all', async () => {
    const first = await openWorkspace()
    const second = await openWorkspace()
    const config = (workspaceName: string, url: string) => ({ workspaceName, modelName: 'm', webhookUrls: [{ url }] })
    const body = (name: string) => ({ webhookConfigs: [config(first.workspaceName, a), config(name, b)] })

    const refused = await service.client.post('/webhooks/config', body(uniqueName('none')))
    expect(refused.status).toBe(400)
    expect(await shown(first.webhooks)).toEqual([])
    expect((await service.client.post('/webhooks/config', body(second.workspaceName))).status).toBe(204)
    expect(urlsOf([...(await shown(first.webhooks)), ...(await shown(second.webhooks))])).toEqual([
      ['m', a],
      ['m', b],
    ])
  })

  const inUrl = (fields: object) => [{ url: b }, { url: a, ...fields }]
  it.each([
    ['url', { url: 'http://a.invalid/' }, /^webhookConfigs\[0\]\.webhookUrls\[1\]\.url: must begin with https:\/\/$/],
    ['url', { url: 'https://u:p@a.invalid/' }, /url: must not hold a user or password/],
    ['url', { url: 'no url' }, /\[1\]\.url: is not a URL/],
    ['url', { url: 'https://169.254.169.254/latest' }, /\[1\]\.url: must lead to a public address/],
    ['url', { url: 'https://0x7f.1/' }, /\[1\]\.url: must lead to a public address/],
    ['url', { url: 'https://B.invalid/hook' }, /\[1\]\.url: is there twice$/],
    ['triggers', { triggers: ['MODEL_UPDATED', 'X'] }, /\[1\]\.triggers\[1\]: must be one of MODEL_VERSION_CREATED, /],
    ['triggers', { triggers: ['model_updated'] }, /\[1\]\.triggers\[0\]: must be one of/],
    ['header', { header: 'x' }, /^webhookConfigs\[0\]\.webhookUrls\[1\]\.header: expected an object of strings$/],
    ['header', { header: ['x'] }, /\[1\]\.header: expected an object of strings$/],
    ['header', { header: { 'X-A': 5 } }, /\[1\]\.header\.X-A: expected a string$/],
    ['header', { header: { 'X A': 'a' } }, /\[1\]\.header: holds a name that no header can have$/],
    ['header', { header: { '': 'a' } }, /\[1\]\.header: holds a name that no header can have$/],
    ['header', { header: { 'X-A': 'a\r\nX-B: b' } }, /\[1\]\.header: X-A must have visible ASCII characters only$/],
    ['header', { header: { 'X-A': 'a', 'x-a': 'b' } }, /\[1\]\.header: x-a is there twice$/],
    ['header', { header: { Host: 'a' } }, /\[1\]\.header: Host is set by the service$/],
    ['header', { header: { 'Webhook-Id': 'a' } }, /\[1\]\.header: Webhook-Id is set by the service$/],
    ['header', { header: { 'Transfer-Encoding': 'chunked' } }, /\[1\]\.header: Transfer-Encoding is set by/],
    ['header', { header: { 'Authorization-Org-Secret-Ref': '' } }, /\[1\]\.header: .+ must be the name of a secret$/],
    [
      'header',
      { header: { authorization: 'a', 'Authorization-Org-Secret-Ref': 'b' } },
      /^webhookConfigs\[0\]\.webhookUrls\[1\]\.header: holds Authorization and Authorization-Org-Secret-Ref: send one/,
    ],
  ])('names %s in %j, and keeps nothing', async (_field, fields, message) => {
    const { webhooks } = await openWorkspace()
    for (const send of [webhooks.merge, webhooks.replace]) {
      expectRefusal(await send(inUrl(fields)), 400, codes.badRequest, message)
    }
    expect(await shown(webhooks)).toEqual([])
  })

  it('an error does not contain the values of rejected headers', async () => {
    const { webhooks } = await openWorkspace()
    const header = { 'X-A': 'sesame\n', Authorization: 'sesame' }
    expect((await webhooks.merge([{ url: a, header }])).text).not.toContain('sesame')
  })

  it('a workspace has 200 receivers at most', async () => {
    const { webhooks } = await openWorkspace()
    const urls = Array.from({ length: 200 }, (_, at) => ({ url: `https://a.invalid/${at}` }))
    expect((await webhooks.merge(urls)).status).toBe(204)

    expectRefusal(await webhooks.merge([{ url: b }], 'model'), 400, 8000081, /^webhookConfigs: a workspace has 200/)

    expect((await webhooks.merge(urls.slice(0, 10))).status).toBe(204)
    expect(urlsOf(await shown(webhooks))).toHaveLength(200)
  })

  it('two that collide end as one of the two orders would have: POSTs add up', async () => {
    const { webhooks } = await openWorkspace()
    const urls = Array.from({ length: 12 }, (_, at) => `https://a.invalid/${at}`)

    const answers = await Promise.all([...urls, ...urls].map((url) => webhooks.merge([{ url }])))

    expect(answers.map((it) => it.status)).toEqual(answers.map(() => 204))
    expect(urlsOf(await shown(webhooks)).map(([, url]) => url)).toEqual([...urls].sort())
  })

  it('two that collide end as one of the two orders would have: of PUTs one is there, whole', async () => {
    const { webhooks } = await openWorkspace()
    const sets = Array.from({ length: 8 }, (_, at) => [0, 1, 2].map((it) => ({ url: `https://a.invalid/${at}/${it}` })))

    const answers = await Promise.all(sets.map((urls) => webhooks.replace(urls, 'model')))

    expect(answers.map((it) => it.status)).toEqual(answers.map(() => 204))
    const left = urlsOf(await shown(webhooks)).map(([, url]) => ({ url }))
    expect(sets).toContainEqual(left)
  })

  it('a change and a configuration that collide: what is not told was changed before, what is gone is sent nothing', async () => {
    const { webhooks, registry } = await openWorkspace()
    const { registryModelItemId: modelItemId } = await registry.aModel()
    const stages = Array.from({ length: 20 }, (_, at) => `stage-${at}`)
    const configured = async () => {
      for (let at = 0; at < 10; at++) {
        expect((await webhooks.replace([{ url: a }, { url: b }])).status).toBe(204)
        expect((await webhooks.replace([{ url: b }])).status).toBe(204)
      }
    }
    const changed = async () => {
      for (const stage of stages) {
        expect((await registry.change('/write/registry-model/item/stage', { modelItemId, stage })).status).toBe(200)
      }
    }
    await Promise.all([configured(), changed()])

    expect((await webhooks.deliveriesTo(a)).every((it) => it.state === 'cancelled')).toBe(true)
    // From the first configuration on, which of them was told is one unbroken run to the last.
    const told = await webhooks.deliveriesTo(b)
    expect(told.every((it) => it.state === 'pending')).toBe(true)
    await registry.change('/write/registry-model/item/stage', { modelItemId, stage: 'last' })
    expect(await webhooks.deliveriesTo(b)).toHaveLength(told.length + 1)
  })
})

it('concurrent renames, configurations and changes are serialized, and none fails', async () => {
  const { webhooks, registry } = await openWorkspace()
  const models = [await registry.aModel(), await registry.aModel()]
  const triggers = ['MODEL_UPDATED', 'MODEL_VERSION_STAGE_CHANGED']
  const names = models.map((it) => it.registryModelName)
  const urls = [a, b, 'https://c.invalid/'].map((url) => ({ url, triggers }))
  for (const name of [...names, undefined]) await webhooks.merge(urls, name)
  const statuses: number[] = []
  const renaming = models.map(async ({ registryModelId }, at) => {
    for (let times = 0; times < 15; times++) {
      const registryModelName = `${names[at]}-${times % 3}`
      statuses.push(
        (await registry.post('/write/registry-model/update', { registryModelId, registryModelName })).status,
      )
    }
  })
  const changing = models.map(async ({ registryModelItemId: modelItemId }) => {
    for (let times = 0; times < 15; times++) {
      statuses.push(
        (await registry.change('/write/registry-model/item/stage', { modelItemId, stage: `stage-${times}` })).status,
      )
    }
  })
  const configuring = [undefined, `${names[0]}-0`, `${names[1]}-1`].map(async (modelName) => {
    for (let times = 0; times < 15; times++) {
      const answer = await webhooks.replace(urls.slice(times % 3), modelName)
      statuses.push(answer.status === 204 ? 200 : answer.status)
    }
  })
  await Promise.all([...renaming, ...changing, ...configuring])

  expect(statuses).toEqual(Array.from({ length: 105 }, () => 200))
})

describe('who may use webhooks', () => {
  it('only owners and admins of the organization; a member gets the reason, a foreign caller no information', async () => {
    await createWebhookClient(service).add({ url: a })
    const calls = (it: ReturnType<typeof createWebhookClient>) => [
      () => it.read(),
      () => it.log(),
      () => it.merge([{ url: a }]),
      () => it.replace([{ url: a }]),
      () => it.post('signing-secret', { url: a }),
      () => it.post('test', { url: a }),
      () => it.post('enable', { url: a }),
      () => it.post('delete', { url: a }),
    ]
    for (const call of calls(adminOnly)) expect([200, 204]).toContain((await call()).status)
    for (const call of calls(colleague)) {
      const message = `Only an owner of the workspace "${service.workspaceName}", or an admin, may do this.`
      expectRefusal(await call(), 403, 8000017, message)
    }
    const foreign = createWebhookClient({ client: stranger, workspaceName: service.workspaceName })
    const absentName = uniqueName('absent')
    const absent = calls(createWebhookClient({ client: stranger, workspaceName: absentName }))
    for (const [at, call] of calls(foreign).entries()) {
      const answer = await call()
      expectRefusal(answer, 400, codes.workspaceUnknown, /^There is no workspace "/)
      expect((await absent[at]?.())?.text).toBe(answer.text.replace(service.workspaceName, absentName))
    }
  })

  it('a foreign delivery, an absent one and an invalid id answer the same', async () => {
    const webhooks = createWebhookClient(service)
    await webhooks.add({ url: a })
    const { deliveryId } = (await webhooks.post('test', { url: a })).body as { deliveryId: string }
    for (const id of [deliveryId, '999999999999', 'x', '-1']) {
      const message = `deliveryId: there is no delivery ${id} that this key may send again.`
      expectRefusal(await stranger.post('/webhooks/redeliver', { deliveryId: id }), 400, 8000083, message)
    }
    expectRefusal(await colleague.post('redeliver', { deliveryId }), 400, 8000083, /^deliveryId: there is no delivery/)
    expect((await adminOnly.post('redeliver', { deliveryId })).status).toBe(200)
  })
})

describe('a receiver', () => {
  it.each([['signing-secret'], ['test'], ['enable'], ['delete']])('%s names the url of an absent one', async (path) => {
    const { webhooks } = await openWorkspace()
    await webhooks.add({ url: a }, 'model')

    for (const fields of [{ url: a }, { url: b, modelName: 'model' }]) {
      expectRefusal(await webhooks.post(path, fields), 400, 8000080, /^url: the workspace has no such webhook for /)
    }
    expectRefusal(await webhooks.post(path, { url: 'x' }), 400, codes.badRequest, /^url: is not a URL/)
    expect((await webhooks.post(path, { url: a, modelName: 'model' })).status).toBe(200)
  })

  it('that is deleted is sent nothing more, its log stays, and the others keep their headers', async () => {
    const { webhooks } = await openWorkspace()
    await webhooks.merge([{ url: a }, { url: b, header: { 'X-Team': 'x' } }])
    await webhooks.post('test', { url: a })

    expect((await webhooks.post('delete', { url: a })).body).toMatchObject({ msg: 'Deleted', code: 200 })

    expect(await shown(webhooks)).toMatchObject([{ webhookUrls: [{ url: b, header: { 'X-Team': '(set)' } }] }])
    expect(await webhooks.deliveriesTo(a)).toMatchObject([{ event: 'WEBHOOK_TEST', state: 'cancelled' }])
  })

  it('keeps its signing secret through a PUT that names it: a new one is told once, the old one signs for a day', async () => {
    const { webhooks } = await openWorkspace()
    await webhooks.add({ url: a })
    const before = Date.now()

    const answer = await webhooks.post('signing-secret', { url: a })

    expect(answer.body).toMatchObject({ signingSecret: expect.stringMatching(/^whsec_[A-Za-z0-9+/]{43}=$/), code: 200 })
    const untilMs = answer.body.oldSecretSignsUntil as number
    expect(untilMs - before).toBeGreaterThanOrEqual(24 * 3_600_000)
    expect(untilMs - Date.now()).toBeLessThanOrEqual(24 * 3_600_000)
    expect((await webhooks.read()).text).not.toContain('whsec_')
  })
})

describe('the log', () => {
  it('is paged, newest first, and filtered by model, version, address or state', async () => {
    const { webhooks, registry } = await openWorkspace()
    await webhooks.merge([{ url: a }, { url: b }])
    const models = [await registry.aModel(), await registry.aModel()]
    for (const { registryModelItemId: modelItemId } of models) {
      for (const stage of ['a', 'b', 'c'])
        await registry.change('/write/registry-model/item/stage', { modelItemId, stage })
    }

    const whole = (await webhooks.log()).body as { deliveries: LoggedDelivery[]; nextPage: string | null }
    const paged: LoggedDelivery[] = []
    let page: string | null = null
    do {
      const { body } = await webhooks.log({ pageSize: '5', ...(page !== null && { page }) })
      paged.push(...(body.deliveries as LoggedDelivery[]))
      page = body.nextPage as string | null
    } while (page !== null)

    expect([whole.deliveries.length, whole.nextPage]).toEqual([12, null])
    expect(paged).toEqual(whole.deliveries)
    const ids = paged.map((it) => Number(it.deliveryId))
    expect(ids).toEqual(ids.toSorted((x, y) => y - x))
    const count = async (query: Record<string, string>) => ((await webhooks.log(query)).body.deliveries as []).length
    const modelName = models[0]?.registryModelName as string
    expect(await count({ modelName })).toBe(6)
    expect(await count({ modelName, version: '1.0.0' })).toBe(6)
    expect(await count({ modelName, version: '1.0.1' })).toBe(0)
    expect(await count({ url: 'https://A.invalid/hook' })).toBe(6)
    expect(await count({ state: 'pending' })).toBe(12)
    expect(await count({ state: 'delivered' })).toBe(0)
    expect(paged[0]).toEqual({
      deliveryId: expect.stringMatching(/^\d+$/),
      webhookId: expect.stringMatching(/^msg_[0-9a-f]{32}$/),
      url: expect.any(String),
      webhookModelName: '*',
      event: 'MODEL_VERSION_STAGE_CHANGED',
      registryModelName: models[1]?.registryModelName,
      version: '1.0.0',
      state: 'pending',
      createdAt: expect.any(Number),
      nextAttemptAt: expect.any(Number),
      attempts: [],
    })
  })

  it.each([
    [{ page: 'x' }, 'page: expected the nextPage of an earlier answer'],
    [{ pageSize: '0' }, 'pageSize: must be 1 or more'],
    [{ pageSize: '1001' }, 'pageSize: must be 1000 or fewer'],
    [{ state: 'held' }, 'state: must be one of pending, delivered, failed, cancelled'],
    [{ url: 'x' }, /^url: is not a URL/],
  ])('names what is wrong in %j', async (query, message) => {
    const { webhooks } = await openWorkspace()
    expectRefusal(await webhooks.log(query as Record<string, string>), 400, codes.badRequest, message)
  })
})
