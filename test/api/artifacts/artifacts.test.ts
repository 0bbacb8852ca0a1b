import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { StoreUrls } from '../../../cli/settings.ts'
import { openDatabase } from '../../../store/postgres/database.ts'
import { aForm, createAssetClient, lookInto, openOwnObjects } from '../../kit/clients/assets.ts'
import type { Answer } from '../../kit/http/client.ts'
import { openOwnStores, uniqueName } from '../../kit/service.ts'
import { openTwoUsers, type TwoUsers } from '../accounts/two-users.ts'
import { codes, expectRefusal } from '../http-error.ts'

let service: TwoUsers
let objects: Awaited<ReturnType<typeof openOwnObjects>>
let assets: ReturnType<typeof createAssetClient>
let stores: StoreUrls
let experimentKey: string
beforeAll(async () => {
  objects = await openOwnObjects()
  // What is loose in a database is freed by any service on it: this one's folder must be the only one.
  stores = { ...(await openOwnStores('postgres')), objectsUrl: objects.url }
  service = await openTwoUsers({ stores })
  assets = createAssetClient(service)
  experimentKey = await service.client.createExperiment()
})
afterAll(async () => {
  await service?.close()
  await objects?.close()
})

const artifactUnknown = 'There is no such artifact that this key may use.'
const versionUnknown = 'There is no such version of an artifact that this key may use.'

type Opened = { artifactId: string; artifactVersionId: string; previousVersion: string | null; currentVersion: string }

const upsert = (fields: Record<string, unknown>) =>
  service.client.post('/write/artifacts/upsert', { experimentKey, artifactType: 'dataset', ...fields })

async function open(artifactName: string, fields: Record<string, unknown> = {}): Promise<Opened> {
  const answer = await upsert({ artifactName, ...fields })
  expect(answer.status, answer.text).toBe(200)
  return answer.body as unknown as Opened
}

const setState = (artifactVersionId: string, state: string, more: Record<string, unknown> = {}) =>
  service.client.post('/write/artifacts/state', { experimentKey, artifactVersionId, state, ...more })

async function close(artifactVersionId: string) {
  const answer = await setState(artifactVersionId, 'CLOSED')
  expect(answer.status, answer.text).toBe(200)
}

async function addFile(artifactVersionId: string, fileName: string, text: string, more: Record<string, string> = {}) {
  const answer = await assets.upload({ experimentKey, artifactVersionId, fileName, ...more }, aForm(Buffer.from(text)))
  expect(answer.status, answer.text).toBe(200)
  return answer.body.assetId as string
}

function read(path: string, query: Record<string, string | undefined>): Promise<Answer> {
  const given = Object.entries(query).filter((it): it is [string, string] => it[1] !== undefined)
  return service.client.get(`${path}?${new URLSearchParams(given)}`)
}
const readVersion = (query: Record<string, string | undefined>) => read('/artifacts/version', query)

async function aClosedVersion(name = uniqueName('artifact'), fields: Record<string, unknown> = {}) {
  const opened = await open(name, fields)
  const assetId = await addFile(opened.artifactVersionId, 'data/train.csv', `of ${opened.currentVersion}`)
  await close(opened.artifactVersionId)
  return { ...opened, name, assetId, workspace: service.workspaceName }
}

describe('an artifact', () => {
  it('is read as it was opened, filled and closed', async () => {
    const name = uniqueName('artifact')
    const versionMetadata = '{"rows": 3,  "é":"\\u00e9"}'
    const answer = await upsert({
      artifactName: name,
      isPublic: false,
      description: 'what it is',
      alias: ['prod', 'a'],
      versionTags: ['t', 'u'],
      versionMetadata,
    })

    expect(answer).toMatchObject({ status: 200, body: { code: 200, data: null, sdk_error_code: 0 } })
    const { artifactId, artifactVersionId, previousVersion, currentVersion } = answer.body as unknown as Opened
    expect(artifactVersionId).toMatch(/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/)
    expect([previousVersion, currentVersion]).toEqual([null, '1.0.0'])
    const assetId = await addFile(artifactVersionId, 'data/train.csv', 'a,b', { metadata: '{ "x":1 }' })
    await addFile(artifactVersionId, 'loss.png', 'png', { type: 'image' })
    expect((await setState(artifactVersionId, 'CLOSED')).body).toEqual({
      msg: 'Saved',
      code: 200,
      data: null,
      sdk_error_code: 0,
    })

    const { body: project } = await read('/project', { workspaceName: service.workspaceName, projectName: 'project' })
    expect((await readVersion({ workspace: service.workspaceName, artifactName: name })).body).toEqual({
      artifactVersionId,
      artifactVersion: '1.0.0',
      version: '1.0.0',
      owner: service.userName,
      createdFrom: null,
      sizeInBytes: 6,
      metadata: versionMetadata,
      note: null,
      added: expect.closeTo(Date.now(), -5),
      state: 'CLOSED',
      tags: ['t', 'u'],
      alias: ['a', 'prod', 'Latest'],
      experimentKey,
      artifact: {
        artifactId,
        artifactName: name,
        name,
        projectId: project.projectId,
        project: 'project',
        workspaceId: expect.stringMatching(/^[0-9a-f-]{36}$/),
        workspaceName: service.workspaceName,
        experimentKey,
        description: 'what it is',
        version: '1.0.0',
        metadata: null,
        artifactType: 'dataset',
        type: 'dataset',
        isPublic: false,
        owner: service.userName,
        s3FileSize: 6,
        sizeInBytes: 6,
        emoji: null,
        tags: [],
      },
    })
    const { body } = await read('/artifacts/version/files', { versionId: artifactVersionId })
    const common = { artifactId, artifactVersionId, link: null, remote: false }
    expect(body).toEqual({
      files: [
        {
          ...common,
          assetId,
          fileName: 'data/train.csv',
          fileSize: 3,
          dir: 'data',
          type: 'unknown',
          metadata: '{ "x":1 }',
        },
        {
          ...common,
          assetId: expect.any(String),
          fileName: 'loss.png',
          fileSize: 3,
          dir: 'others',
          type: 'image',
          metadata: null,
        },
      ],
    })
  })

  it('gives numbers: the next major one, or the one that is asked for, once', async () => {
    const name = uniqueName('artifact')
    const numbers: unknown[] = []
    for (const version of [undefined, '1.2.3', undefined, '0.9.0', '10.0.0-rc.1', null]) {
      const { previousVersion, currentVersion } = await open(name, { version })
      numbers.push([previousVersion, currentVersion])
    }

    expect(numbers).toEqual([
      [null, '1.0.0'],
      ['1.0.0', '1.2.3'],
      ['1.2.3', '2.0.0'],
      ['2.0.0', '0.9.0'],
      ['0.9.0', '10.0.0-rc.1'],
      ['10.0.0-rc.1', '11.0.0'],
    ])
    const taken = await upsert({ artifactName: name, version: '1.2.3' })
    expectRefusal(taken, 400, 90399, 'version: the artifact has this version already; leave it out to get the next one')
    for (const version of ['1', 'v1.0.0', '1.0', '01.0.0', 'x']) {
      const refused = await upsert({ artifactName: name, version })
      expectRefusal(refused, 400, codes.badRequest, 'version: expected a semantic version such as 1.0.0')
    }
  })

  it('is changed by an upsert with other fields', async () => {
    const name = uniqueName('artifact')
    const { artifactId } = await open(name, { description: 'first', isPublic: true })
    await open(name, { artifactType: 'model' })

    const { body } = await read('/artifacts/get', { artifactId })
    expect(body).toMatchObject({ artifactType: 'model', description: 'first', isPublic: true, latestVersion: null })
    expect((body.versions as { artifactVersion: string }[]).map((it) => it.artifactVersion)).toEqual(['2.0.0', '1.0.0'])
  })

  it('opened twenty times concurrently gets twenty numbers, each once', async () => {
    const name = uniqueName('artifact')
    const twenty = Array.from({ length: 20 })

    const opened = await Promise.all(twenty.map(() => open(name)))
    const same = await Promise.all(twenty.map(() => upsert({ artifactName: name, version: '99.0.0' })))

    const numbers = opened.map((it) => Number.parseInt(it.currentVersion, 10)).toSorted((a, b) => a - b)
    expect(numbers).toEqual(twenty.map((_, index) => index + 1))
    expect(new Set(opened.map((it) => it.artifactId)).size).toBe(1)
    expect(same.filter((it) => it.status === 200)).toHaveLength(1)
    for (const it of same) if (it.status !== 200) expect(it.body.sdk_error_code).toBe(90399)
  })

  it('is listed with its kind, and named by its id, its workspace or its experiment', async () => {
    const type = uniqueName('type')
    const { artifactId, name, workspace } = await aClosedVersion(undefined, { artifactType: type })

    const listed = await read('/artifacts/get-all', { workspace, type })
    expect(listed.body.artifacts).toMatchObject([{ artifactId, artifactName: name, latestVersion: '1.0.0' }])
    expect((await read('/artifacts/get-all', { workspace, type, project: 'other' })).body.artifacts).toEqual([])
    for (const query of [
      { artifactId },
      { artifact_id: artifactId },
      { workspace, artifactName: name },
      { experimentKey, artifactName: name, project: 'project' },
    ]) {
      expect((await read('/artifacts/get', query)).body).toMatchObject({ artifactId })
      expect((await readVersion(query)).body).toMatchObject({ artifactVersion: '1.0.0' })
    }
    expectRefusal(
      await readVersion({ artifactName: name }),
      400,
      codes.badRequest,
      'Name the artifact by artifactId, by versionId, or by artifactName together with workspace.',
    )
  })
})

describe('a version', () => {
  it('is readable only by the experiment that opened it, until it is closed', async () => {
    const name = uniqueName('artifact')
    const { artifactId, artifactVersionId: versionId } = await open(name)
    const assetId = await addFile(versionId, 'a', 'a')
    const other = await service.client.createExperiment()
    const about = { workspace: service.workspaceName, artifactName: name }

    const files = await read('/artifacts/version/files', { ...about, experimentKey })
    expect(files.body.files).toMatchObject([{ assetId }])
    const notClosed = 'Version 1.0.0 is not closed yet: only the experiment that opened it can read it now.'
    for (const query of [about, { ...about, experimentKey: other }, { versionId }, { ...about, version: '1.0.0' }]) {
      expectRefusal(await readVersion(query), 400, 90402, notClosed)
      expectRefusal(await read('/artifacts/version/files', query), 400, 90402, notClosed)
      expectRefusal(await read('/artifacts/version/download', query), 400, 90402, notClosed)
    }
    // With both ids, which only the opener has yet, no experiment need be named.
    expect((await readVersion({ artifactId, versionId })).body).toMatchObject({ state: 'OPEN' })
    const file = { experimentKey: other, assetId, artifactVersionId: versionId }
    expectRefusal(await read('/experiment/asset/get-asset', file), 400, 90402, notClosed)
    await setState(versionId, 'ERROR')
    expectRefusal(await readVersion(about), 400, 90403, 'Version 1.0.0 was not closed because of an error.')
  })

  it('has a state that is final, and no other', async () => {
    const { artifactVersionId } = await open(uniqueName('artifact'))

    const unknown = await setState(artifactVersionId, 'DONE')
    expectRefusal(unknown, 400, 90410, 'state: expected one of OPEN, CLOSED, ERROR')
    expect((await setState(artifactVersionId, 'OPEN')).status).toBe(200)
    await close(artifactVersionId)
    for (const state of ['OPEN', 'CLOSED', 'ERROR']) {
      const refused = await setState(artifactVersionId, state)
      expectRefusal(refused, 400, 90401, 'The version is CLOSED or ERROR, which is final: open a new one.')
    }
    const elsewhere = await service.client.createExperiment()
    const another = await open(uniqueName('artifact'))
    expectRefusal(
      await setState(another.artifactVersionId, 'CLOSED', { experimentKey: elsewhere }),
      400,
      624523,
      versionUnknown,
    )
  })

  it('keeps its files when it is closed: none is added, replaced or deleted', async () => {
    const { artifactVersionId, assetId } = await aClosedVersion()
    const image = await open(uniqueName('artifact'))
    const imageId = await addFile(image.artifactVersionId, 'a.png', 'png', { type: 'image' })
    await close(image.artifactVersionId)
    const sent = () => aForm(Buffer.from('other'))

    const added = await assets.upload({ experimentKey, artifactVersionId, fileName: 'more' }, sent())
    expectRefusal(added, 400, 90401, 'The version is CLOSED or ERROR, which is final: open a new one.')
    const stays = 'assetId: the asset belongs to a closed artifact version, whose files stay the same'
    expectRefusal(await assets.upload({ experimentKey, assetId, fileName: 'x' }, sent()), 400, 7000005, stays)
    expectRefusal(await read('/write/experiment/asset/delete', { experimentKey, assetId }), 400, 7000005, stays)
    expectRefusal(
      await read('/write/experiment/asset/delete', { experimentKey, assetId: imageId }),
      400,
      7000006,
      stays,
    )
    await assets.upload({ experimentKey, fileName: 'data/train.csv', overwrite: 'true' }, sent())

    const { bytes } = await assets.readPath(
      `/experiment/asset/get-asset?${new URLSearchParams({ experimentKey, assetId, artifactVersionId })}`,
    )
    expect(bytes.toString()).toBe('of 1.0.0')
    expect(await lookInto(stores).findLeftovers()).toEqual([])
  })

  it('has files of its own: overwriting one leaves those of other versions alone', async () => {
    const name = uniqueName('artifact')
    const first = await open(name)
    await addFile(first.artifactVersionId, 'a', 'one')
    const second = await open(name)
    await addFile(second.artifactVersionId, 'a', 'two')
    await addFile(second.artifactVersionId, 'a', 'three', { overwrite: 'true' })
    await close(first.artifactVersionId)
    await close(second.artifactVersionId)

    const sizes = async (version: string) => {
      const { body } = await read('/artifacts/version/files', { artifactId: first.artifactId, version })
      return (body.files as { fileSize: number }[]).map((it) => it.fileSize)
    }
    expect([await sizes('1.0.0'), await sizes('2.0.0')]).toEqual([[3], [5]])
  })

  it('accepts files only from the experiment that opened it', async () => {
    const { artifactVersionId } = await open(uniqueName('artifact'))
    const other = await service.client.createExperiment()

    for (const query of [
      { experimentKey: other, artifactVersionId },
      { experimentKey, artifactVersionId: randomUUID() },
      { experimentKey, artifactVersionId: 'x' },
    ]) {
      const answer = await assets.upload({ ...query, fileName: 'a' }, aForm(Buffer.from('a')))
      expectRefusal(answer, 400, 624523, versionUnknown)
    }
    expect(await lookInto(stores).findLeftovers()).toEqual([])
  })

  it('can have remote files, by their links', async () => {
    const { artifactId, artifactVersionId } = await open(uniqueName('artifact'))
    const remoteAssets = [{ artifactId, artifactVersionId, link: 's3://bucket/a.bin', fileName: 'a.bin' }]
    const sent = await service.client.post('/write/experiment/assets/remote/batch', { experimentKey, remoteAssets })
    expect(sent.status, sent.text).toBe(200)
    await close(artifactVersionId)

    const { body } = await read('/artifacts/version/files', { versionId: artifactVersionId })

    const remote = { fileName: 'a.bin', fileSize: 0, link: 's3://bucket/a.bin', remote: true, type: 'unknown' }
    expect(body.files).toMatchObject([remote])
  })

  it('is readable as a zip, and file by file by each experiment that uses it', async () => {
    const { artifactVersionId, assetId } = await aClosedVersion()
    const consumer = await service.client.createExperiment()

    await readVersion({ versionId: artifactVersionId, consumerExperimentKey: consumer })
    await readVersion({ versionId: artifactVersionId, consumerExperimentKey: consumer })
    const { bytes } = await assets.readPath(
      `/experiment/asset/get-asset?${new URLSearchParams({ experimentKey: consumer, assetId, artifactVersionId })}`,
    )
    const zip = await assets.readPath(`/artifacts/version/download?versionId=${artifactVersionId}`)
    const consumers = await read('/artifacts/version/consumers', { versionId: artifactVersionId })

    expect(bytes.toString()).toBe('of 1.0.0')
    expect(zip.headers.get('content-type')).toBe('application/zip')
    expect(zip.bytes.subarray(0, 4).toString()).toBe('PK\x03\x04')
    expect(zip.bytes.includes('data/train.csv')).toBe(true)
    expect(consumers.body.consumers).toEqual([{ experimentKey: consumer, firstUsed: expect.closeTo(Date.now(), -5) }])
    const absent = { experimentKey: consumer, assetId: 'no', artifactVersionId }
    expectRefusal(
      await read('/experiment/asset/get-asset', absent),
      400,
      8000030,
      'The artifact version has no file no: see /artifacts/version/files.',
    )
  })
})

describe('an alias', () => {
  const find = async (query: Record<string, string>) => {
    const { body } = await readVersion(query)
    return [body.artifactVersion, body.alias]
  }

  it('moves to the newest version that has it, once that is closed', async () => {
    const first = await aClosedVersion(undefined, { alias: ['prod', 'old'] })
    const { artifactId, name } = first
    const second = await open(name, { alias: ['prod', 'new', 'Latest'] })

    expect(await find({ artifactId, alias: 'prod' })).toEqual(['1.0.0', ['old', 'prod', 'Latest']])
    expect((await readVersion({ artifactId, alias: 'new' })).body.sdk_error_code).toBe(90402)
    expect(await find({ artifactId, alias: 'new', experimentKey })).toEqual(['2.0.0', ['new', 'prod']])
    await close(second.artifactVersionId)

    expect(await find({ artifactId, alias: 'prod' })).toEqual(['2.0.0', ['new', 'prod', 'Latest']])
    expect(await find({ artifactId, versionOrAlias: 'new' })).toEqual(['2.0.0', ['new', 'prod', 'Latest']])
    expect(await find({ artifactId, versionOrAlias: '1.0.0' })).toEqual(['1.0.0', ['old']])
    expect(await find({ artifactId, alias: 'latest' })).toEqual(['2.0.0', ['new', 'prod', 'Latest']])
    expectRefusal(await readVersion({ artifactId, alias: 'none' }), 400, 624523, versionUnknown)
  })

  it('can be set later, like tags and metadata; lists are replaced', async () => {
    const first = await aClosedVersion(undefined, { alias: ['a', 'b'], versionTags: ['x'], versionMetadata: '1' })
    const second = await aClosedVersion(first.name)
    const set = (fields: Record<string, unknown>) =>
      service.client.post('/write/artifacts/version/labels', {
        artifactVersionId: second.artifactVersionId,
        ...fields,
      })

    expect((await set({ alias: ['b', 'c', 'c'], versionTags: ['y', 'y'] })).status).toBe(200)
    expect((await set({ versionMetadata: '{"z":2}' })).status).toBe(200)

    const { artifactId } = first
    expect((await readVersion({ artifactId, version: '2.0.0' })).body).toMatchObject({
      alias: ['b', 'c', 'Latest'],
      tags: ['y'],
      metadata: '{"z":2}',
    })
    expect((await readVersion({ artifactId, version: '1.0.0' })).body).toMatchObject({
      alias: ['a'],
      tags: ['x'],
      metadata: '1',
    })
    await set({ alias: [] })
    expect(await find({ artifactId })).toEqual(['2.0.0', ['Latest']])
  })

  it('given to many versions concurrently stays with one', async () => {
    const first = await aClosedVersion()
    const versions = [first]
    for (let more = 0; more < 4; more++) versions.push(await aClosedVersion(first.name))

    await Promise.all(
      versions.map(({ artifactVersionId }) =>
        service.client.post('/write/artifacts/version/labels', { artifactVersionId, alias: ['only'] }),
      ),
    )

    const { body } = await read('/artifacts/get', { artifactId: first.artifactId })
    const holders = (body.versions as { alias: string[] }[]).filter((it) => it.alias.includes('only'))
    expect(holders).toHaveLength(1)
  })
})

it('details of an artifact and of a version are set by either spelling of its id', async () => {
  const { artifactId } = await aClosedVersion()
  const set = (fields: Record<string, unknown>) => service.client.post('/write/artifacts/details', fields)

  await set({ artifactId, artifactType: 'model', tags: ['a', 'b', 'a'], versionMetadata: '{"of":"all"}' })
  await set({ artifact_id: artifactId, version: '1.0.0', versionMetadata: '{"of":"one"}' })

  const { body } = await readVersion({ artifactId })
  expect(body).toMatchObject({
    metadata: '{"of":"one"}',
    artifact: { artifactType: 'model', tags: ['a', 'b'], metadata: '{"of":"all"}' },
  })
  expectRefusal(await set({ tags: [] }), 400, codes.badRequest, 'artifactId: is missing')
  const unknown = await set({ artifactId, version: '7.0.0', versionMetadata: 'no', tags: ['lost'] })
  expectRefusal(unknown, 400, 624523, versionUnknown)
  expect((await readVersion({ artifactId })).body.artifact).toMatchObject({ tags: ['a', 'b'] })
})

describe('deletion', () => {
  it('of a version deletes its bytes, and its number is never used again', async () => {
    const { name, artifactId, artifactVersionId } = await aClosedVersion()
    const second = await aClosedVersion(name)
    const before = (await lookInto(stores).findFiles()).length

    expect((await read('/write/artifacts/version/delete', { artifactVersionId })).status).toBe(200)

    expect((await lookInto(stores).findFiles()).length).toBe(before - 1)
    expectRefusal(await readVersion({ artifactId, version: '1.0.0' }), 400, 624523, versionUnknown)
    const again = await upsert({ artifactName: name, version: '1.0.0' })
    expectRefusal(again, 400, 7000019, 'version: this version was deleted, and its number cannot be used again')
    await read('/write/artifacts/version/delete', { artifactVersionId: second.artifactVersionId })
    expect((await open(name)).currentVersion).toBe('3.0.0')
    const twice = await read('/write/artifacts/version/delete', { artifactVersionId })
    expectRefusal(twice, 400, 624523, versionUnknown)
  })

  it('of an artifact deletes all its bytes', async () => {
    const { name, artifactId } = await aClosedVersion()
    await aClosedVersion(name)
    const openVersion = await open(name)
    await addFile(openVersion.artifactVersionId, 'a', 'a')
    const before = (await lookInto(stores).findFiles()).length

    expect((await read('/write/artifacts/delete', { artifactId })).status).toBe(200)

    expect((await lookInto(stores).findFiles()).length).toBe(before - 3)
    expectRefusal(await read('/artifacts/get', { artifactId }), 400, 624522, artifactUnknown)
    expect((await open(name)).currentVersion).toBe('1.0.0')
  })

  it('of the experiment keeps closed versions, and deletes the files of open ones', async () => {
    const own = await service.client.createExperiment()
    const name = uniqueName('artifact')
    const closed = await open(name, { experimentKey: own })
    await addFile(closed.artifactVersionId, 'kept', 'kept', { experimentKey: own })
    await setState(closed.artifactVersionId, 'CLOSED', { experimentKey: own })
    const left = await open(name, { experimentKey: own })
    await addFile(left.artifactVersionId, 'gone', 'gone', { experimentKey: own })
    const before = (await lookInto(stores).findFiles()).length

    const database = openDatabase({ url: stores.postgresUrl, connectionsMax: 1, onError: () => undefined })
    await database.row('DELETE FROM experiments WHERE key = $1', [own])
    await database.close()
    // Whatever is deleted next frees what is loose.
    const other = await aClosedVersion()
    await read('/write/artifacts/version/delete', { artifactVersionId: other.artifactVersionId })

    expect((await lookInto(stores).findFiles()).length).toBe(before - 1)
    const { body } = await read('/artifacts/version/files', { versionId: closed.artifactVersionId })
    const [file] = body.files as { assetId: string }[]
    const query = { experimentKey, assetId: file?.assetId ?? '', artifactVersionId: closed.artifactVersionId }
    const { bytes } = await assets.readPath(`/experiment/asset/get-asset?${new URLSearchParams(query)}`)
    expect(bytes.toString()).toBe('kept')
  })
})

describe('who may', () => {
  it('for a foreign caller an artifact looks absent', async () => {
    const { artifactId, artifactVersionId, name, workspace } = await aClosedVersion(undefined, { isPublic: true })
    const { stranger } = service
    const queries = (id: string, versionId: string, artifactName: string) => [
      `/artifacts/get?artifactId=${id}`,
      `/artifacts/version?artifactId=${id}`,
      `/artifacts/version?versionId=${versionId}`,
      `/artifacts/version?workspace=${workspace}&artifactName=${artifactName}`,
      `/artifacts/version/files?versionId=${versionId}`,
      `/artifacts/version/download?versionId=${versionId}`,
      `/artifacts/version/consumers?versionId=${versionId}`,
      `/artifacts/get-all?workspace=${workspace}`,
      `/write/artifacts/delete?artifactId=${id}`,
      `/write/artifacts/version/delete?artifactVersionId=${versionId}`,
    ]
    const absent = queries(randomUUID(), randomUUID(), 'none')
    for (const [index, path] of queries(artifactId, artifactVersionId, name).entries()) {
      const answer = await stranger.get(path)
      expect(answer.text, path).toBe((await stranger.get(absent[index] as string)).text)
    }
    for (const path of ['/write/artifacts/version/labels', '/write/artifacts/details']) {
      const answer = await stranger.post(path, { artifactId, artifactVersionId, tags: [], alias: [] })
      const nothing = { artifactId: randomUUID(), artifactVersionId: randomUUID(), tags: [], alias: [] }
      expect(answer.text).toBe((await stranger.post(path, nothing)).text)
      expect(answer.status).toBe(400)
    }
  })
})
