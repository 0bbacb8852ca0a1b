import { randomBytes } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { openDatabase } from '../../../store/postgres/database.ts'
import { deleteExperiments } from '../../../store/postgres/experiments/experiments.ts'
import { insertRegistryModel } from '../../../store/postgres/registry/models.ts'
import {
  deleteRegistryVersion,
  type ExperimentModelSource,
  insertRegistryVersion,
  lockExperimentModel,
} from '../../../store/postgres/registry/versions.ts'
import { aForm, type ListedAsset, lookInto, openOwnObjects } from '../../kit/clients/assets.ts'
import { createRegistryClient, type Source } from '../../kit/clients/registry.ts'
import { eventually } from '../../kit/eventually.ts'
import { openOwnStores, openTestService } from '../../kit/service.ts'
import { readZip } from '../../kit/zip.ts'
import { codes, expectRefusal } from '../http-error.ts'

let objects: Awaited<ReturnType<typeof openOwnObjects>>
let service: Awaited<ReturnType<typeof openTestService>>
let registry: ReturnType<typeof createRegistryClient>
let inside: ReturnType<typeof lookInto>
let database: ReturnType<typeof openDatabase>
beforeAll(async () => {
  objects = await openOwnObjects()
  const stores = { ...(await openOwnStores('postgres')), objectsUrl: objects.url }
  service = await openTestService({ stores })
  registry = createRegistryClient(service)
  inside = lookInto(stores)
  database = openDatabase({ url: stores.postgresUrl, onError: () => undefined })
})
afterAll(async () => {
  await service?.close()
  await database?.close()
  await objects?.close()
})

const files = () => ({
  'weights/model.pt': randomBytes(30_000),
  'config.json': Buffer.from('{}'),
  empty: Buffer.alloc(0),
})
const toEntries = (of: Record<string, Buffer>) =>
  Object.entries(of).map(([name, bytes]) => ({ name, method: 8, bytes }))

async function download(modelName: string, more?: Record<string, string>) {
  const { status, bytes } = await registry.download(modelName, more)
  expect(status).toBe(200)
  return readZip(bytes)
}

/** Deletes an experiment, and sweeps it away as if its time to be restored had passed. */
async function sweepAway({ experimentKey }: Source) {
  await service.client.get(`/write/experiment/delete?experimentKey=${experimentKey}`)
  const row = await database.row<{ id: bigint }>('SELECT id FROM experiments WHERE key = $1', [experimentKey])
  await deleteExperiments(database, [(row as { id: bigint }).id])
  expect(await inside.query('SELECT 1 FROM assets WHERE experiment_id = $1', [row?.id])).toEqual([])
}

async function findViewer() {
  const row = await database.row<{ userId: string; organizationId: string }>(
    'SELECT id AS "userId", organization_id AS "organizationId" FROM users WHERE user_name = $1',
    [service.userName],
  )
  const { userId, organizationId } = row as { userId: string; organizationId: string }
  return { userId, viewerId: userId, organizationId, shareCode: null }
}

/** How many connections to this test's database wait for others to end. */
async function countWaiting(): Promise<number> {
  const sql = `SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`
  return (await inside.query(sql)).length
}

const expectNothingLoose = () => eventually(async () => expect(await inside.countLoose()).toBe(0))

/** The versions and files that a read of instructions tells. */
async function instructions(modelName: string, more?: Record<string, string>) {
  const { body } = await registry.read('/registry-model/item/download-instructions', modelName, more)
  const [version] = body.versions as [{ version: string; assets: ListedAsset[] }]
  return version
}

describe('a registered version', () => {
  it('downloads as a zip, byte for byte: by version, by stage, else the highest', async () => {
    const [first, second] = [files(), files()]
    const { registryModelName } = await registry.aModel(
      { version: '2.0.0', stages: ['production'] },
      await registry.aSource(first),
    )
    const { experimentModelId } = await registry.aSource(second)
    await registry.post('/write/registry-model/item', {
      experimentModelId,
      registryModelName,
      version: '1.0.0',
      stages: ['production', 'old'],
    })

    const ofTheHighest: Record<string, string>[] = [{ version: '2.0.0' }, { stage: 'production' }, {}]
    for (const choice of ofTheHighest) {
      expect(await download(registryModelName, choice)).toEqual(toEntries(first))
    }
    const ofTheOther: Record<string, string>[] = [
      { version: '1.0.0' },
      { stage: 'old' },
      { version: '1.0.0', stage: 'production' },
    ]
    for (const choice of ofTheOther) {
      expect(await download(registryModelName, choice)).toEqual(toEntries(second))
      expect(await instructions(registryModelName, choice)).toMatchObject({ version: '1.0.0' })
    }
    const { headers } = await registry.download(registryModelName)
    expect(headers.get('content-type')).toBe('application/zip')
    expect(headers.get('content-disposition')).toBe(`attachment; filename=${registryModelName}_2.0.0.zip`)

    const none = await registry.read('/registry-model/item/download', registryModelName, {
      version: '2.0.0',
      stage: 'old',
    })
    const message = `The registry model "${registryModelName}" has no version of version "2.0.0" and stage "old".`
    expectRefusal(none, 400, 8000063, message)
  })

  it('lists the URL of each file, which supports ranges; remote files keep their link, and are not in the zip', async () => {
    const bytes = randomBytes(1_000)
    const source = await registry.aSource({ 'a.bin': bytes })
    const remote = {
      ...source,
      type: 'model-element',
      groupingName: source.modelName,
      isRemote: 'true',
      link: 's3://b/c',
    }
    await registry.assets.upload(remote, aForm(undefined, { fileName: 'c' }))
    const { registryModelName, registryModelItemId: modelItemId } = await registry.aModel({}, source)

    const { version, assets } = await instructions(registryModelName)
    expect(version).toBe('1.0.0')
    expect(assets).toMatchObject([
      { fileName: 'a.bin', fileSize: 1_000, remote: false, type: 'model-element', dir: `models/${source.modelName}` },
      { fileName: 'c', fileSize: 0, remote: true, link: 's3://b/c' },
    ])
    const [{ assetId, link }] = assets as [ListedAsset & { link: string }]
    const path = `/registry-model/item/get-asset?${new URLSearchParams({ modelItemId, assetId })}`
    expect(link.startsWith(`http://127.0.0.1:0/api/rest/v2${path}&`)).toBe(true)
    expect((await registry.assets.readPath(path)).bytes.equals(bytes)).toBe(true)
    const range = await registry.assets.readPath(path, { range: 'bytes=10-19' })
    expect([range.status, range.bytes.equals(bytes.subarray(10, 20))]).toEqual([206, true])
    expect(await download(registryModelName)).toEqual(toEntries({ 'a.bin': bytes }))
    const refused = await service.client.get(path.replace(assetId, assets[1]?.assetId as string))
    expectRefusal(refused, 400, codes.badRequest, 'assetId: the asset is remote; its bytes are at s3://b/c')
    const none = await service.client.get(path.replace(assetId, 'none'))
    const message = `There is no file none of a registry model version ${modelItemId} that this key may use.`
    expectRefusal(none, 400, 8000063, message)
  })

  it('keeps the files of its registration, whatever is added, replaced or tagged later', async () => {
    const first = files()
    const source = await registry.aSource(first)
    const { registryModelName } = await registry.aModel({}, source)
    const assetId = await registry.addFile(source, 'later', Buffer.from('later'))
    await registry.addFile(source, 'config.json', Buffer.from('{"a":1}'), { overwrite: 'true' })
    await service.client.post('/write/experiment/asset/tag', {
      experimentKey: source.experimentKey,
      assetId,
      tags: ['a'],
    })
    await registry.post('/write/registry-model/item', {
      experimentModelId: source.experimentModelId,
      registryModelName,
    })

    expect(await download(registryModelName, { version: '1.0.0' })).toEqual(toEntries(first))
    const names = (await download(registryModelName)).map((it) => `${it.name} ${it.bytes.length}`)
    expect(names).toEqual(['weights/model.pt 30000', 'empty 0', 'later 5', 'config.json 7'])
  })
})

describe('the files of a registered version', () => {
  it('outlive their assets and experiment, and are deleted with the last version that has them', async () => {
    const before = (await inside.findFiles()).length
    const count = async () => (await inside.findFiles()).length - before
    /** When all that is loose has been freed. */
    const countKept = async () => {
      await expectNothingLoose()
      return await count()
    }
    const kept = files()
    const source = await registry.aSource({ ...kept, other: Buffer.from('deleted before') })
    const { client } = service
    const remove = async (fileName: string) => {
      const { experimentKey } = source
      const asset = (await registry.assets.list(experimentKey)).find((it) => it.fileName === fileName)
      const answer = await client.get(
        `/write/experiment/asset/delete?experimentKey=${experimentKey}&assetId=${asset?.assetId}`,
      )
      expect(answer.status).toBe(200)
    }
    await remove('other')
    const { experimentModelId } = source
    const one = await registry.aModel({}, source)
    const { registryModelName } = one
    await registry.post('/write/registry-model/item', { experimentModelId, registryModelName })
    const another = await registry.aModel({}, source)
    expect(await count()).toBe(3)

    await remove('config.json')
    await registry.addFile(source, 'empty', Buffer.from('replaced'), { overwrite: 'true' })
    expect(await count()).toBe(4)
    await sweepAway(source)
    // Of the four, the one that took another's place was of the experiment alone.
    await registry.change('/write/registry-model/item/delete', { modelItemId: one.registryModelItemId })
    expect(await countKept()).toBe(3)
    for (const name of [registryModelName, another.registryModelName])
      expect(await download(name)).toEqual(toEntries(kept))

    const query = { workspaceName: service.workspaceName, modelName: registryModelName }
    expect((await registry.change('/write/registry-model/delete', query)).status).toBe(200)
    expect(await countKept()).toBe(3)
    expect(await download(another.registryModelName)).toEqual(toEntries(kept))
    expect(
      (await registry.change('/write/registry-model/item/delete', { modelItemId: another.registryModelItemId })).status,
    ).toBe(200)
    expect(await countKept()).toBe(0)
  })

  it('stay with the experiment when the version goes', async () => {
    const kept = files()
    const source = await registry.aSource(kept)
    const { registryModelItemId } = await registry.aModel({}, source)
    const before = await inside.findFiles()
    await registry.change('/write/registry-model/item/delete', { modelItemId: registryModelItemId })
    await expectNothingLoose()
    expect(await inside.findFiles()).toEqual(before)
    const query = new URLSearchParams({ experimentKey: source.experimentKey, modelName: source.modelName })
    const { bytes } = await registry.assets.readPath(`/experiment/model/download?${query}`)
    expect(readZip(bytes)).toEqual(toEntries(kept))
  })

  it('are complete or absent when the assets are deleted concurrently, without orphaned or lost objects', async () => {
    for (let round = 0; round < 8; round++) {
      const before = (await inside.findFiles()).length
      const source = await registry.aSource({ a: Buffer.from('a'), b: Buffer.from('b') })
      const { experimentKey, experimentModelId } = source
      const assets = await registry.assets.list(experimentKey)
      const registryModelName = `${source.modelName} registered`
      const [registered] = await Promise.all([
        registry.post('/write/registry-model', { experimentModelId, registryModelName }),
        ...assets.map(({ assetId }) =>
          service.client.get(`/write/experiment/asset/delete?experimentKey=${experimentKey}&assetId=${assetId}`),
        ),
      ])

      const names =
        registered.status === 200 ? (await download(registryModelName)).map((it) => it.bytes.toString()) : []
      if (registered.status !== 200) expectRefusal(registered, 400, 8000067, /has no files any more/)
      await eventually(async () => expect((await inside.findFiles()).length - before).toBe(names.length))
    }
  })

  it('are kept when an asset is deleted during the registration', async () => {
    const source = await registry.aSource()
    const { experimentKey, experimentModelId } = source
    const [asset] = await registry.assets.list(experimentKey)
    const before = await inside.findFiles()
    const viewer = await findViewer()
    let deletion: Promise<unknown> | undefined
    await database.transaction(async (queries) => {
      const locked = (await lockExperimentModel(queries, viewer, experimentModelId)) as ExperimentModelSource
      const common = { userId: viewer.userId, nowMs: Date.now() }
      const model = { workspaceId: locked.workspaceId, name: source.modelName, description: '', isPublic: false }
      const modelId = await insertRegistryModel(queries, { ...model, ...common })
      const version = { modelId, version: '1.0.0', comment: '', stages: [], status: 'None', source: locked }
      expect(await insertRegistryVersion(queries, { ...version, ...common })).toMatchObject({ files: 1n })
      let isDone = false
      deletion = service.client
        .get(`/write/experiment/asset/delete?experimentKey=${experimentKey}&assetId=${asset?.assetId}`)
        .finally(() => {
          isDone = true
        })
      // It goes on before this is committed, or has to wait for it.
      await eventually(async () => expect(isDone || (await countWaiting()) > 0).toBe(true))
    })
    await deletion
    expect(await registry.assets.list(experimentKey)).toEqual([])
    expect(await inside.findFiles()).toEqual(before)
    expect(await download(source.modelName)).toEqual(toEntries({ 'model.bin': Buffer.from('weights') }))
  })

  it('that two versions share are deleted even if neither deletion sees the other', async () => {
    const source = await registry.aSource()
    const before = (await inside.findFiles()).length
    const [one, other] = [await registry.aModel({}, source), await registry.aModel({}, source)]
    await sweepAway(source)
    await database.transaction(async (queries) => {
      await deleteRegistryVersion(queries, one.registryModelItemId)
      expect(
        (await registry.change('/write/registry-model/item/delete', { modelItemId: other.registryModelItemId })).status,
      ).toBe(200)
      // What this one let go of was looked at, and is referred to still.
      await expectNothingLoose()
      expect(await inside.findFiles()).toHaveLength(before)
    })
    const { registryModelItemId } = await registry.aModel({}, await registry.aSource())
    await registry.change('/write/registry-model/item/delete', { modelItemId: registryModelItemId })
    await expectNothingLoose()
    // Another file came, and that of the two went.
    expect(await inside.findFiles()).toHaveLength(before)
  })

  it('that are overwritten during the registration are the old or the new ones', async () => {
    const source = await registry.aSource({ a: Buffer.from('0') })
    const { experimentModelId } = source
    const { registryModelName } = await registry.aModel({}, source)
    await Promise.all(
      Array.from({ length: 10 }, async (_, at) => {
        await registry.addFile(source, 'a', Buffer.from(String(at)), { overwrite: 'true' })
        expect(
          (await registry.post('/write/registry-model/item', { experimentModelId, registryModelName })).status,
        ).toBe(200)
      }),
    )
    for (const version of await registry.listVersions(registryModelName)) {
      expect((await download(registryModelName, { version })).map((it) => it.bytes.length)).toEqual([1])
    }
  })

  it('that two versions share are deleted when both are deleted concurrently', async () => {
    for (let round = 0; round < 8; round++) {
      const before = (await inside.findFiles()).length
      const source = await registry.aSource(files())
      const models = await Promise.all([registry.aModel({}, source), registry.aModel({}, source)])
      await sweepAway(source)
      await Promise.all(
        models.map((it) =>
          registry.change('/write/registry-model/item/delete', { modelItemId: it.registryModelItemId }),
        ),
      )
      await expectNothingLoose()
      expect(await inside.findFiles()).toHaveLength(before)
    }
  })
})
