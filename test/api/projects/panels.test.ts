import { createHash, randomBytes } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { aForm, createAssetClient, lookInto, openOwnObjects } from '../../kit/clients/assets.ts'
import { createClient, type TestClient } from '../../kit/http/client.ts'
import { createUser, openOwnStores, openTestService, uniqueName } from '../../kit/service.ts'
import { codes, expectRefusal } from '../http-error.ts'

const panelUnknown = 8000040
const panelsFull = 8000041

let service: Awaited<ReturnType<typeof openTestService>>
let objects: Awaited<ReturnType<typeof openOwnObjects>>
let inside: ReturnType<typeof lookInto>
let client: TestClient
let assets: ReturnType<typeof createAssetClient>
let stranger: TestClient & { workspaceName: string }
beforeAll(async () => {
  objects = await openOwnObjects()
  const stores = { ...(await openOwnStores('postgres')), objectsUrl: objects.url }
  service = await openTestService({ stores })
  inside = lookInto(stores)
  client = service.client
  assets = createAssetClient(service)
  const user = await createUser(stores)
  stranger = { ...createClient(service.url, user), workspaceName: user.workspaceName }
})
afterAll(async () => {
  await service?.close()
  await objects?.close()
})

/** What begins as a zip does. */
function aZip(bytes = 100): Buffer<ArrayBuffer> {
  return Buffer.concat([Buffer.from('PK\x03\x04'), randomBytes(bytes)])
}

async function aTeam(): Promise<string> {
  const name = uniqueName('team')
  await client.post('/write/workspace/new', { name })
  return name
}

type Sent = Parameters<typeof assets.send>[1]
const upload = (query: Record<string, string>, sent: Sent) =>
  assets.send(`/write/template/upload?${new URLSearchParams(query)}`, sent)

async function aPanel(teamName: string, zip = aZip()): Promise<string> {
  const answer = await upload({ teamName }, aForm(zip))
  expect(answer.status, answer.text).toBe(200)
  return answer.body.templateId as string
}

const list = async (teamName: string) =>
  (await client.get(`/templates?${new URLSearchParams({ teamName })}`)).body.templates as Record<string, unknown>[]
const download = (templateId: string, headers?: Record<string, string>) =>
  assets.readPath(`/template/download?templateId=${templateId}`, headers)
const remove = (templateId: string, by = client) => by.get(`/write/template/delete?templateId=${templateId}`)

/** How many files the object store holds. */
async function countFiles(): Promise<number> {
  return (await inside.findFiles()).length
}

describe('a panel', () => {
  it.each([
    ['as a form', (zip: Buffer<ArrayBuffer>) => aForm(zip)],
    [
      'as the whole body',
      (zip: Buffer<ArrayBuffer>) => ({ body: zip, headers: { 'content-type': 'application/zip' } }),
    ],
  ])('uploaded %s is listed, and the bytes read are those sent', async (_name, toSent) => {
    const teamName = await aTeam()
    expect(await list(teamName)).toEqual([])
    const zip = aZip(300_000)
    const before = Date.now()

    const { body } = await upload({ teamName }, toSent(zip))

    expect(body).toEqual({
      msg: 'Saved',
      code: 200,
      data: null,
      sdk_error_code: 0,
      templateId: expect.stringMatching(/^[0-9a-f]{32}$/),
    })
    const [panel] = await list(teamName)
    expect(panel).toEqual({
      templateId: body.templateId,
      fileName: expect.stringMatching(/^(upload\.bin|panel-[0-9a-f]{8}\.zip)$/),
      fileSize: zip.length,
      userName: service.userName,
      createdAt: expect.any(Number),
      lastUpdated: panel?.createdAt,
    })
    expect(panel?.createdAt).toBeGreaterThanOrEqual(before)
    const read = await download(body.templateId as string)
    expect(read.bytes.equals(zip)).toBe(true)
    expect(read.headers.get('content-type')).toBe('application/zip')
    expect(read.headers.get('etag')).toBe(`"${createHash('sha256').update(zip).digest('hex')}"`)
    const range = await download(body.templateId as string, { range: 'bytes=0-3' })
    expect([range.status, range.bytes.toString()]).toEqual([206, 'PK\x03\x04'])
  })

  it('that is replaced keeps its id and position, and its old bytes are deleted', async () => {
    const teamName = await aTeam()
    const [first, second] = [await aPanel(teamName), await aPanel(teamName)]
    const files = await countFiles()
    const zip = aZip()

    const answer = await upload({ teamName, templateId: first }, aForm(zip))

    expect(answer.body).toMatchObject({ msg: 'Saved', templateId: first })
    expect((await list(teamName)).map((it) => it.templateId)).toEqual([first, second])
    expect((await download(first)).bytes.equals(zip)).toBe(true)
    expect(await countFiles()).toBe(files)
    expect(await inside.countLoose()).toBe(0)
  })

  it('that is deleted is gone with its bytes, and a second deletion finds none', async () => {
    const teamName = await aTeam()
    const files = await countFiles()
    const id = await aPanel(teamName)
    expect(await countFiles()).toBe(files + 1)
    expect((await remove(id)).body).toEqual({ msg: 'Deleted', code: 200, data: null, sdk_error_code: 0 })
    expect(await list(teamName)).toEqual([])
    expect(await countFiles()).toBe(files)
    expectRefusal(await remove(id), 400, panelUnknown, `There is no panel ${id} that this key may use: see /templates.`)
    expect((await download(id)).status).toBe(400)
  })

  it('that is foreign answers like an absent one, and an upload to it stores nothing', async () => {
    const [teamName, other] = [await aTeam(), await aTeam()]
    const id = await aPanel(teamName)
    const files = await countFiles()
    const absent = '0'.repeat(32)
    const message = (it: string) => `There is no panel ${it} that this key may use: see /templates.`
    for (const it of [id, absent]) {
      const refused = await upload({ teamName: other, templateId: it }, aForm(aZip()))
      expectRefusal(refused, 400, panelUnknown, message(it))
      expectRefusal(await remove(it, stranger), 400, panelUnknown, message(it))
      expectRefusal(await stranger.get(`/template/download?templateId=${it}`), 400, panelUnknown, message(it))
      const query = new URLSearchParams({ teamName: stranger.workspaceName, templateId: it })
      const foreign = await stranger.postRaw(`/write/template/upload?${query}`, aZip())
      expectRefusal(foreign, 400, panelUnknown, message(it))
    }
    const query = new URLSearchParams({ teamName })
    for (const path of [`/templates?${query}`]) {
      expectRefusal(await stranger.get(path), 400, codes.workspaceUnknown, /^There is no workspace/)
    }
    const foreign = await stranger.postRaw(`/write/template/upload?${query}`, aZip())
    expectRefusal(foreign, 400, codes.workspaceUnknown, /^There is no workspace/)
    expect(await countFiles()).toBe(files)
    expect(await list(teamName)).toHaveLength(1)
  })

  it.each([
    ['no file', aForm(undefined, { other: 'field' }), 'file: is missing; send it as this part of the form'],
    ['no bytes', aForm(Buffer.alloc(0)), 'file: is not a zip'],
    ['too few bytes', aForm(Buffer.from('PK\x03')), 'file: is not a zip'],
    ['text', aForm(Buffer.from('hello, panel')), 'file: is not a zip'],
    ['a large file that is none', aForm(randomBytes(3_000_000)), 'file: is not a zip'],
    [
      'a raw body that is none',
      { body: Buffer.from('{}'), headers: { 'content-type': 'application/zip' } },
      'file: is not a zip',
    ],
  ] as const)('with %s is refused, and nothing is kept', async (_name, sent, message) => {
    const teamName = await aTeam()
    const files = await countFiles()
    expectRefusal(await upload({ teamName }, sent), 400, codes.badRequest, message)
    expect(await list(teamName)).toEqual([])
    expect(await countFiles()).toBe(files)
    expect(await inside.countLoose()).toBe(0)
  })

  it('over the size limit is rejected, and nothing is stored', async () => {
    const teamName = await aTeam()
    const files = await countFiles()
    const megabyte = randomBytes(1024 * 1024)
    async function* pieces() {
      yield Buffer.from('PK\x03\x04')
      for (let sent = 0; sent < 100; sent++) yield megabyte
    }
    const answer = await upload({ teamName }, { body: ReadableStream.from(pieces()) as never })
    expectRefusal(answer, 413, codes.tooLarge, /limit of 104857600 bytes/)
    expect(await countFiles()).toBe(files)
  })

  it('without a required query field is rejected with the field', async () => {
    expectRefusal(await upload({}, aForm(aZip())), 400, codes.badRequest, 'teamName: is missing')
    expectRefusal(await upload({ teamName: '' }, aForm(aZip())), 400, codes.badRequest, 'teamName: must not be empty')
    const both = { teamName: 'x', templateId: '' }
    expectRefusal(await upload(both, aForm(aZip())), 400, codes.badRequest, 'templateId: must not be empty')
    expectRefusal(await client.get('/template/download'), 400, codes.badRequest, 'templateId: is missing')
    expectRefusal(await client.get('/write/template/delete'), 400, codes.badRequest, 'templateId: is missing')
    expectRefusal(await client.get('/templates'), 400, codes.badRequest, 'teamName: is missing')
  })

  it('that is replaced concurrently has the bytes of one upload, and the others are deleted', async () => {
    const teamName = await aTeam()
    const files = await countFiles()
    const id = await aPanel(teamName)
    const zips = Array.from({ length: 10 }, () => aZip(10_000))
    const answers = await Promise.all(zips.map((it) => upload({ teamName, templateId: id }, aForm(it))))
    expect(answers.map((it) => it.status)).toEqual(zips.map(() => 200))
    const { bytes } = await download(id)
    expect(zips.filter((it) => it.equals(bytes))).toHaveLength(1)
    expect(await countFiles()).toBe(files + 1)
  })

  it('that is deleted and replaced concurrently ends as if in sequence', async () => {
    const teamName = await aTeam()
    const files = await countFiles()
    for (let round = 0; round < 10; round++) {
      const id = await aPanel(teamName)
      const [replaced, deleted] = await Promise.all([upload({ teamName, templateId: id }, aForm(aZip())), remove(id)])
      expect(deleted.status).toBe(200)
      expect([0, panelUnknown]).toContain(replaced.body.sdk_error_code)
      expect(await list(teamName)).toEqual([])
    }
    expect(await countFiles()).toBe(files)
  })

  it('beyond the maximum of its workspace is rejected, also for concurrent uploads', async () => {
    const teamName = await aTeam()
    await aPanel(teamName)
    await inside.query(
      `INSERT INTO panels (workspace_id, user_id, file_name, size, sha256, object_key, created_at_ms, updated_at_ms)
       SELECT p.workspace_id, p.user_id, 'filled in', 0, '', p.object_key || '-' || n, 0, 0
       FROM panels p JOIN workspaces w ON w.id = p.workspace_id, generate_series(1, 997) n WHERE w.name = $1`,
      [teamName],
    )
    const files = await countFiles()
    const answers = await Promise.all(Array.from({ length: 5 }, () => upload({ teamName }, aForm(aZip()))))
    const refused = answers.filter((it) => it.status !== 200)
    expect(refused).toHaveLength(3)
    for (const it of refused) {
      expectRefusal(
        it,
        400,
        panelsFull,
        `The workspace "${teamName}" has reached the limit of 1000 panels: delete some, or replace one (templateId).`,
      )
    }
    expect(await list(teamName)).toHaveLength(1000)
    expect(await countFiles()).toBe(files + 2)
  })
})
