import { randomBytes } from 'node:crypto'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import type { StoreUrls } from '../../../cli/settings.ts'
import { createClosers } from '../../../runtime/closers.ts'
import { aForm, createAssetClient, lookInto, openOwnObjects } from '../../kit/clients/assets.ts'
import { createRegistryClient } from '../../kit/clients/registry.ts'
import { eventually } from '../../kit/eventually.ts'
import { openOwnStores, openTestService } from '../../kit/service.ts'
import { codes, expectRefusal } from '../http-error.ts'

const closers = createClosers()
afterEach(() => closers.closeAll())

// What is loose in a database is freed by any service on it: each folder needs a database of its own.
let ownStores: StoreUrls
beforeAll(async () => {
  ownStores = await openOwnStores('postgres')
})

async function open(settings: Record<string, string>, closersOf = closers) {
  const objects = await openOwnObjects()
  closersOf.push(objects.close)
  const stores = { ...ownStores, objectsUrl: objects.url }
  const service = await openTestService({ stores, settings })
  closersOf.push(service.close)
  const experimentKey = await service.client.createExperiment()
  return { ...service, experimentKey, assets: createAssetClient(service), inside: lookInto(stores) }
}

const limitedTypes: [string, number][] = [
  ['image', 7000001],
  ['text-sample', 7000012],
  ['histogram3d', 7000013],
  ['model-element', 7000014],
  ['curve', 7000015],
  ['notebook', 7000016],
  ['embeddings', 7000017],
  ['video', 7000018],
]

describe('an experiment', () => {
  let service: Awaited<ReturnType<typeof open>>
  const typeClosers = createClosers()
  beforeAll(async () => {
    service = await open({ SVC_ASSETS_OF_TYPE_MAX: '2' }, typeClosers)
  })
  afterAll(() => typeClosers.closeAll())

  it.each(limitedTypes)('has a maximum of assets of type %s', async (type, code) => {
    const { assets, client, inside } = service
    const experimentKey = await client.createExperiment()
    const filesBefore = (await inside.findFiles()).length
    const put = (fileName: string, more = {}) =>
      assets.upload({ experimentKey, type, fileName, ...more }, aForm(Buffer.from(fileName)))

    const answers = await Promise.all(['a', 'b', 'c', 'd'].map((it) => put(it)))

    expect(answers.map((it) => it.status).toSorted()).toEqual([200, 200, 400, 400])
    const refused = answers.find((it) => it.status === 400)
    expectRefusal(refused as (typeof answers)[0], 400, code, /^The experiment has reached the limit of 2 .*: /)
    expect(await inside.findFiles()).toHaveLength(filesBefore + 2)
    // One may take the place of another; other types, and other experiments, are not touched.
    const [there] = await assets.list(experimentKey)
    expect((await put(there?.fileName ?? '', { overwrite: 'true' })).status).toBe(200)
    // Freed before the next test counts.
    await eventually(async () => expect(await inside.findFiles()).toHaveLength(filesBefore + 2))
    expect((await put('x', { type: 'asset' })).status).toBe(200)
    const other = await client.createExperiment()
    expect((await put('x', { experimentKey: other })).status).toBe(200)
  })

  it('cannot exceed it with a batch of remote assets', async () => {
    const { assets, client } = service
    const experimentKey = await client.createExperiment()
    const remoteAssets = Array.from({ length: 3 }, (_, at) => ({ link: `s3://a/${at}`, type: 'image' }))
    const answer = await client.post('/write/experiment/assets/remote/batch', { experimentKey, remoteAssets })
    expectRefusal(answer, 400, 7000001, /^The experiment has reached the limit of 2 images/)
    expect(await assets.list(experimentKey)).toEqual([])
  })
})

it('a workspace has a maximum of bytes, and deletion frees space', async () => {
  const { assets, experimentKey, client, inside } = await open({ SVC_WORKSPACE_BYTES_MAX: '1000' })
  const first = await assets.upload({ experimentKey }, aForm(randomBytes(900)))
  const second = await client.createExperiment({ projectName: 'another' })

  const refused = await assets.upload({ experimentKey: second }, aForm(randomBytes(200)))

  expectRefusal(refused, 400, 90501, /has 900 bytes of files; the limit is 1000/)
  expect(await inside.findFiles()).toHaveLength(1)
  const query = new URLSearchParams({ experimentKey, assetId: first.body.assetId as string })
  await client.get(`/write/experiment/asset/delete?${query}`)
  expect((await assets.upload({ experimentKey: second }, aForm(randomBytes(200)))).status).toBe(200)
})

it('bytes that only registered versions refer to count once, until the last version is deleted', async () => {
  const service = await open({ SVC_WORKSPACE_BYTES_MAX: '1000' })
  const { assets, client } = service
  const registry = createRegistryClient(service)
  const source = await registry.aSource({ a: randomBytes(900) })
  const { experimentKey } = source
  const models = [await registry.aModel({}, source), await registry.aModel({}, source)]
  const upload = () => assets.upload({ experimentKey }, aForm(randomBytes(200)))
  expectRefusal(await upload(), 400, 90501, /has 900 bytes/)
  const [asset] = await assets.list(experimentKey)
  const assetId = asset?.assetId ?? ''
  await client.get(`/write/experiment/asset/delete?${new URLSearchParams({ experimentKey, assetId })}`)
  for (const { registryModelItemId } of models) {
    expectRefusal(await upload(), 400, 90501, /has 900 bytes/)
    await registry.change('/write/registry-model/item/delete', { modelItemId: registryModelItemId })
  }
  expect((await upload()).status).toBe(200)
})

it('a file has a maximum of bytes, as a part and as a body', async () => {
  const { assets, experimentKey, inside } = await open({ SVC_ASSET_BYTES_MAX: '100000' })
  for (const body of [aForm(randomBytes(100_001)), { body: randomBytes(300_000) }]) {
    const answer = await assets.upload({ experimentKey }, body)
    expectRefusal(answer, 413, codes.tooLarge, /^The body is over the limit of 100000 bytes/)
  }
  expect((await assets.upload({ experimentKey }, aForm(randomBytes(100_000)))).status).toBe(200)
  expect(await inside.findFiles()).toHaveLength(1)
})

it('uploads are throttled and counted like other writes', async () => {
  const { assets, experimentKey, client } = await open({ SVC_VALUES_PER_MINUTE: '3' })
  const answers = []
  for (let at = 0; at < 5; at++) answers.push(await assets.upload({ experimentKey }, aForm(Buffer.from('x'))))
  expect(answers.map((it) => it.status)).toEqual([200, 200, 200, 429, 429])
  expect(answers[3]?.headers.get('retry-after')).not.toBeNull()
  expect(await assets.list(experimentKey)).toHaveLength(3)
  const { body } = await client.get(`/experiment/metadata?experimentKey=${experimentKey}`)
  expect(Number(body.endTimeMillis)).toBeGreaterThan(0)
})
