import { createHash, randomBytes } from 'node:crypto'
import zlib from 'node:zlib'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { StoreUrls } from '../../../cli/settings.ts'
import { aForm, createAssetClient, type ListedAsset, lookInto, openOwnObjects } from '../../kit/clients/assets.ts'
import { openOwnStores, uniqueName } from '../../kit/service.ts'
import { openTwoUsers, type TwoUsers } from '../accounts/two-users.ts'
import { codes, expectRefusal } from '../http-error.ts'

let service: TwoUsers
let objects: Awaited<ReturnType<typeof openOwnObjects>>
let experimentKey: string
let assets: ReturnType<typeof createAssetClient>
let stores: StoreUrls
beforeAll(async () => {
  objects = await openOwnObjects()
  // What is loose in a database is freed by any service on it: this one's folder must be the only one.
  stores = { ...(await openOwnStores('postgres')), objectsUrl: objects.url }
  service = await openTwoUsers({ stores })
  experimentKey = await service.client.createExperiment()
  assets = createAssetClient(service)
})
afterAll(async () => {
  await service?.close()
  await objects?.close()
})

const sha256 = (bytes: Uint8Array) => createHash('sha256').update(bytes).digest('hex')
const upload = '/write/experiment/upload-asset'

describe('upload-asset', () => {
  it('stores a file of a form byte for byte, with all its fields', async () => {
    const bytes = randomBytes(200_000)
    const metadata = '{"b": 1,  "a":[1.0, "é\\u00e9"]}'
    const query = { type: 'image', step: '7', epoch: '2', context: 'train', fileName: 'plots/loss.png' }

    const answer = await assets.upload({ experimentKey, ...query }, aForm(bytes, { metadata, tags: '["b","a","b"]' }))

    expect(answer).toMatchObject({ status: 200, body: { msg: 'Saved', code: 200, data: null, sdk_error_code: 0 } })
    expect(answer.headers.get('content-type')).toBe('application/json')
    const { assetId } = answer.body as { assetId: string }
    expect((await assets.read(experimentKey, assetId)).bytes.equals(bytes)).toBe(true)
    const link = `http://127.0.0.1:0/api/rest/v2/experiment/asset/get-asset?experimentKey=${experimentKey}&assetId=${assetId}`
    expect(await assets.find(experimentKey, assetId)).toEqual({
      assetId,
      fileName: 'plots/loss.png',
      fileSize: bytes.length,
      runContext: 'train',
      step: 7,
      remote: false,
      link,
      dir: 'plots',
      type: 'image',
      metadata,
      tags: ['b', 'a'],
      createdAt: expect.closeTo(Date.now(), -5),
      canView: true,
      image: true,
      audio: false,
      video: false,
      histogram: false,
      curlDownload: `curl '${link}' -H "Authorization: <Your API Key>" > 'loss.png'`,
      experimentKey,
      compressedAssetLink: null,
      s3Link: null,
    })
  })

  it.each([
    ['application/octet-stream', undefined],
    ['text/csv; charset=utf-8', undefined],
    ['application/json', undefined],
    ['application/x-www-form-urlencoded', undefined],
    ['application/octet-stream', 'gzip'],
  ])('keeps a raw body of type %s, with encoding %s', async (contentType, encoding) => {
    const bytes = Buffer.from('a,b\n1,2\n')
    const headers = { 'content-type': contentType, ...(encoding && { 'content-encoding': encoding }) }

    const answer = await assets.upload(
      { experimentKey, fileName: 'raw' },
      { body: encoding ? zlib.gzipSync(bytes) : bytes, headers },
    )

    expect(answer.status, answer.text).toBe(200)
    expect((await assets.read(experimentKey, answer.body.assetId as string)).bytes).toEqual(bytes)
  })

  it('stores empty files, as a part and as a body', async () => {
    for (const body of [aForm(Buffer.alloc(0)), { body: Buffer.alloc(0) }]) {
      const answer = await assets.upload({ experimentKey, fileName: 'empty.bin' }, body)
      expect(answer.status, answer.text).toBe(200)
      const read = await assets.read(experimentKey, answer.body.assetId as string)
      expect([read.status, read.bytes.length, read.headers.get('content-length')]).toEqual([200, 0, '0'])
    }
  })

  it('accepts all fields from the form, also after the file', async () => {
    const form = aForm(Buffer.from('x'), { experimentKey, fileName: 'late.txt', step: '3' })
    const answer = await assets.upload({}, form)
    expect(answer.status, answer.text).toBe(200)
    expect(await assets.find(experimentKey, answer.body.assetId as string)).toMatchObject({
      fileName: 'late.txt',
      step: 3,
    })
  })

  it('names a file: as the query says, else as the file, else by its type and extension', async () => {
    const own = await service.client.createExperiment()
    const auto = { fileName: 'auto-generated-in-the-backend', type: 'image' }
    const nameOf = async (query: Record<string, string>, body = aForm(Buffer.from('x'))) =>
      (await assets.upload({ experimentKey: own, ...query }, body)).body.fileName

    expect(await nameOf({ fileName: 'a/b c.txt' })).toBe('a/b c.txt')
    expect(await nameOf({})).toBe('upload.bin')
    expect(await nameOf({ ...auto, extension: 'png' })).toMatch(/^image-[0-9a-f]{8}\.png$/)
    expect(await nameOf({ ...auto, extension: '.png' })).toMatch(/^image-[0-9a-f]{8}\.png$/)
    expect(await nameOf({}, { body: Buffer.from('x') })).toMatch(/^asset-[0-9a-f]{8}$/)
  })

  it('stores two files of one name separately, and with overwrite replaces both', async () => {
    const own = await service.client.createExperiment()
    const put = (text: string, query = {}) =>
      assets.upload({ experimentKey: own, fileName: 'same.txt', ...query }, aForm(Buffer.from(text)))
    await put('one')
    await put('two')
    expect(await assets.list(own)).toHaveLength(2)

    const { body } = await put('three', { overwrite: 'true' })

    const [only, ...more] = await assets.list(own)
    expect([only?.assetId, more]).toEqual([body.assetId, []])
    expect(String((await assets.read(own, body.assetId as string)).bytes)).toBe('three')
  })

  it('stores an asset under the caller’s id, and replaces one with that id', async () => {
    const own = await service.client.createExperiment()
    const assetId = uniqueName('id')
    for (const text of ['one', 'two']) {
      const answer = await assets.upload({ experimentKey: own, assetId }, aForm(Buffer.from(text)))
      expect(answer.body.assetId).toBe(assetId)
    }
    expect(await assets.list(own)).toHaveLength(1)
    expect(String((await assets.read(own, assetId)).bytes)).toBe('two')
  })

  it('stores the link of a remote asset, from the query, a field or a file part', async () => {
    const link = 's3://bucket/a b.bin'
    const asFile = new FormData()
    asFile.set('link', new Blob([link]), 'link')
    const ways = [
      () => assets.upload({ experimentKey, isRemote: 'true', link, fileName: 'r' }, { body: Buffer.alloc(0) }),
      () => assets.upload({ experimentKey, isRemote: 'true', fileName: 'r' }, aForm(undefined, { link })),
      () => assets.upload({ experimentKey, isRemote: 'true', fileName: 'r' }, { body: asFile }),
    ]
    for (const way of ways) {
      const answer = await way()
      expect(answer.status, answer.text).toBe(200)
      const assetId = answer.body.assetId as string
      expect(await assets.find(experimentKey, assetId)).toMatchObject({ remote: true, link, fileSize: 0 })
      const read = await service.client.get(
        `/experiment/asset/get-asset?${new URLSearchParams({ experimentKey, assetId })}`,
      )
      expectRefusal(read, 400, codes.badRequest, /^assetId: the asset is remote; its bytes are at s3:/)
    }
  })

  it('rejects invalid fields by name, and stores nothing', async () => {
    const own = await service.client.createExperiment()
    const file = aForm(Buffer.from('x'))
    const two = new FormData()
    for (const name of ['a', 'b']) two.append('file', new Blob([name]), name)
    const broken = { body: Buffer.from('--x\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\nhalf') }
    const multipart = { ...broken, headers: { 'content-type': 'multipart/form-data; boundary=x' } }
    const badRequest = codes.badRequest
    const wrong: [Record<string, string>, Parameters<typeof assets.upload>[1], number, RegExp][] = [
      [{}, file, codes.experimentKeyMissing, /^experimentKey: is missing/],
      [{ experimentKey: '' }, file, codes.experimentKeyMissing, /^experimentKey: /],
      [{ experimentKey: 'x'.repeat(32) }, file, codes.experimentUnknown, /^There is no experiment xxx/],
      [{ experimentKey: own, step: '1.5' }, file, badRequest, /^step: expected an integer/],
      [{ experimentKey: own, overwrite: 'maybe' }, file, badRequest, /^overwrite: expected true or false/],
      [{ experimentKey: own }, aForm(Buffer.from('x'), { step: 'x' }), badRequest, /^step: expected an integer/],
      [{ experimentKey: own }, aForm(Buffer.from('x'), { tags: '[1]' }), badRequest, /^tags\[0\]: expected a string/],
      [{ experimentKey: own }, aForm(Buffer.from('x'), { tags: '[' }), badRequest, /^tags: expected a JSON list/],
      [{ experimentKey: own }, aForm(undefined, { step: '1' }), badRequest, /^file: is missing/],
      [{ experimentKey: own }, { body: two }, badRequest, /^file: the form has more than one/],
      [{ experimentKey: own, isRemote: 'true' }, file, badRequest, /^link: is missing/],
      [{ experimentKey: own, fileName: 'x'.repeat(1_001) }, file, badRequest, /^fileName: must have 1000 /],
      [{ experimentKey: own }, multipart, badRequest, /^The form cannot be read: /],
      [
        { experimentKey: own },
        { ...broken, headers: { 'content-type': 'multipart/form-data' } },
        badRequest,
        /^The form/,
      ],
      [{ experimentKey: own }, { ...broken, headers: { 'content-encoding': 'gzip' } }, codes.badCompression, /gzip/],
    ]
    for (const [query, body, code, message] of wrong) {
      expectRefusal(await assets.upload(query, body), 400, code, message)
    }
    const zipped = await assets.upload({ experimentKey: own }, { ...broken, headers: { 'content-encoding': 'br' } })
    expectRefusal(zipped, 415, codes.unsupportedType, /^Content-Encoding "br"/)
    expect(await assets.list(own)).toEqual([])
    expect(await lookInto(stores).findLeftovers()).toEqual([])
  })

  it('rejects foreign callers before they send a body, as if the experiment did not exist', async () => {
    const path = `${upload}?experimentKey=${experimentKey}`
    const foreign = await service.stranger.postRaw(path, 'x')
    const absent = await service.stranger.postRaw(path.replace(experimentKey, 'a'.repeat(32)), 'x')
    expectRefusal(foreign, 400, codes.experimentUnknown, /^There is no experiment /)
    expect(foreign.text).toBe(absent.text.replaceAll('a'.repeat(32), experimentKey))
    expectRefusal(await service.client.postRaw(path, 'x', { apiKey: 'no' }), 401, codes.keyUnknown, /not registered/)
  })

  it('of one name, sent concurrently with overwrite, leaves one asset and no orphaned object', async () => {
    const own = await service.client.createExperiment()
    const texts = Array.from({ length: 12 }, (_, at) => `text ${at}`)
    const answers = await Promise.all(
      texts.map((text) =>
        assets.upload({ experimentKey: own, fileName: 'same', overwrite: 'true' }, aForm(Buffer.from(text))),
      ),
    )

    expect(answers.map((it) => it.status)).toEqual(texts.map(() => 200))
    const listed = await assets.list(own)
    expect(listed).toHaveLength(1)
    const { bytes } = await assets.read(own, (listed[0] as ListedAsset).assetId)
    expect(texts).toContain(String(bytes))
    expect(await lookInto(stores).findLeftovers()).toEqual([])
  })
})

describe('asset/list', () => {
  it('lists all in upload order, or those of a type', async () => {
    const own = await service.client.createExperiment()
    for (const type of ['image', 'curve', 'image', 'a type of our own']) {
      await assets.upload({ experimentKey: own, type, fileName: type }, aForm(Buffer.from('x')))
    }
    const typesOf = async (type?: string) => (await assets.list(own, type)).map((it) => it.type)

    expect(await typesOf()).toEqual(['image', 'curve', 'image', 'a type of our own'])
    expect(await typesOf('all')).toHaveLength(4)
    expect(await typesOf('image')).toEqual(['image', 'image'])
    expect(await typesOf('video')).toEqual([])
  })

  it('gives a file without a type the type asset', async () => {
    const own = await service.client.createExperiment()
    await assets.upload({ experimentKey: own }, aForm(Buffer.from('x')))
    const [asset] = await assets.list(own)
    expect(asset).toMatchObject({
      type: 'asset',
      dir: 'others',
      metadata: null,
      tags: [],
      step: null,
      runContext: null,
    })
  })

  it('rejects a foreign experiment like an absent one', async () => {
    const answer = await service.stranger.get(`/experiment/asset/list?experimentKey=${experimentKey}`)
    expectRefusal(answer, 400, codes.experimentUnknown, /^There is no experiment /)
  })
})

describe('get-asset', () => {
  const bytes = Buffer.from('0123456789')
  let assetId: string
  beforeAll(async () => {
    const query = { experimentKey, fileName: 'Bericht "für" <b>.html' }
    assetId = (await assets.upload(query, aForm(bytes))).body.assetId as string
  })
  const read = (headers: Record<string, string> = {}) => assets.read(experimentKey, assetId, headers)

  it('sends the bytes as a download, never to be rendered on our origin', async () => {
    const { status, headers, bytes: sent } = await read()
    expect([status, String(sent)]).toEqual([200, '0123456789'])
    expect(Object.fromEntries(headers)).toMatchObject({
      'content-type': 'text/html',
      'content-length': '10',
      'content-disposition': expect.stringMatching(/^attachment; filename=.*filename\*=UTF-8''Bericht/i),
      'x-content-type-options': 'nosniff',
      'content-security-policy': expect.stringMatching(/^sandbox/),
      'accept-ranges': 'bytes',
      etag: `"${sha256(bytes)}"`,
    })
  })

  it.each([
    ['bytes=0-0', '0', 'bytes 0-0/10'],
    ['bytes=2-4', '234', 'bytes 2-4/10'],
    ['bytes=7-', '789', 'bytes 7-9/10'],
    ['bytes=-3', '789', 'bytes 7-9/10'],
    ['bytes=-1000', '0123456789', 'bytes 0-9/10'],
    ['bytes=5-1000', '56789', 'bytes 5-9/10'],
  ])('sends the range %s', async (range, part, contentRange) => {
    const { status, headers, bytes: sent } = await read({ range })
    expect([status, String(sent), headers.get('content-range')]).toEqual([206, part, contentRange])
    expect(headers.get('content-length')).toBe(String(part.length))
  })

  it.each(['bytes=0-1,3-4', 'lines=1-2', 'bytes=x', 'bytes='])('sends all for %s', async (range) => {
    const { status, bytes: sent } = await read({ range })
    expect([status, String(sent)]).toEqual([200, '0123456789'])
  })

  it('refuses a range beyond the end with 416', async () => {
    const path = `/experiment/asset/get-asset?${new URLSearchParams({ experimentKey, assetId })}`
    const answer = await service.client.get(path, { headers: { range: 'bytes=10-' } })
    expectRefusal(answer, 416, 8000033, /^The asset has 10 bytes/)
    expect(answer.headers.get('content-range')).toBe('bytes */10')
  })

  it('sends nothing for a matching ETag, and everything for another one', async () => {
    const etag = `"${sha256(bytes)}"`
    for (const known of [etag, `W/${etag}`, `"x", ${etag}`]) {
      const { status, bytes: sent } = await read({ 'if-none-match': known })
      expect([status, sent.length]).toEqual([304, 0])
    }
    expect((await read({ 'if-none-match': '"x"' })).status).toBe(200)
    expect((await read({ range: 'bytes=0-1', 'if-range': etag })).status).toBe(206)
    expect((await read({ range: 'bytes=0-1', 'if-range': '"x"' })).status).toBe(200)
  })

  it.each([
    ['a.png', 'application/x-www-form-urlencoded', 'image/png'],
    ['a.unheardof', 'application/x-thing', 'application/x-thing'],
    ['a', 'application/octet-stream', 'application/octet-stream'],
    ['a', 'x/y\tz', 'application/octet-stream'],
  ])('sends %s, once sent as %s, as %s', async (fileName, sent, expected) => {
    const answer = await assets.upload({ experimentKey, fileName }, { body: bytes, headers: { 'content-type': sent } })
    if (answer.status === 415) return expect(sent).toContain('\t')
    const { headers } = await assets.read(experimentKey, answer.body.assetId as string)
    expect(headers.get('content-type')).toBe(expected)
  })

  it('answers HEAD with the headers alone', async () => {
    const path = `/experiment/asset/get-asset?${new URLSearchParams({ experimentKey, assetId })}`
    const answer = await service.client.send('HEAD', path, undefined)
    expect([answer.status, answer.text]).toEqual([200, ''])
    expect(answer.headers.get('content-length')).toBe('10')
  })

  it('rejects an absent asset, and one of another experiment', async () => {
    const other = await service.client.createExperiment()
    for (const [key, id] of [
      [experimentKey, 'nothing'],
      [other, assetId],
    ] as const) {
      const query = new URLSearchParams({ experimentKey: key, assetId: id })
      expectRefusal(await service.client.get(`/experiment/asset/get-asset?${query}`), 400, 8000030, /has no asset/)
    }
    const query = new URLSearchParams({ experimentKey, assetId })
    const foreign = await service.stranger.get(`/experiment/asset/get-asset?${query}`)
    expectRefusal(foreign, 400, codes.experimentUnknown, /^There is no experiment /)
  })
})

describe('asset/delete', () => {
  it('removes the asset and frees its object', async () => {
    const { body } = await assets.upload({ experimentKey }, aForm(randomBytes(1_000)))
    const path = `/write/experiment/asset/delete?${new URLSearchParams({ experimentKey, assetId: body.assetId as string })}`
    const foreign = await service.stranger.get(path)
    expectRefusal(foreign, 400, codes.experimentUnknown, /^There is no experiment /)

    const answer = await service.client.get(path)

    expect(answer.text).toBe('{"msg":"Deleted","code":200,"data":null,"sdk_error_code":0}')
    expectRefusal(await service.client.get(path), 400, 8000030, /has no asset/)
    expect(await lookInto(stores).findLeftovers()).toEqual([])
  })
})

describe('asset/tag', () => {
  it('adds each tag once, in order; asset/tag/delete removes one', async () => {
    const assetId = (await assets.upload({ experimentKey }, aForm(Buffer.from('x')))).body.assetId as string
    const add = (tags: string[]) => service.client.post('/write/experiment/asset/tag', { experimentKey, assetId, tags })
    const tagsOf = async () => (await assets.find(experimentKey, assetId)).tags

    expect((await add(['b', 'a', 'b'])).text).toBe('{"msg":"Saved","code":200,"data":null,"sdk_error_code":0}')
    await add(['c', 'a'])
    expect(await tagsOf()).toEqual(['b', 'a', 'c'])
    await Promise.all(Array.from({ length: 10 }, (_, at) => add([`at once ${at}`])))
    expect(await tagsOf()).toHaveLength(13)

    const query = new URLSearchParams({ experimentKey, assetId, tag: 'a' })
    const removed = await service.client.get(`/write/experiment/asset/tag/delete?${query}`)
    expect(removed.text).toBe('{"msg":"Deleted","code":200,"data":null,"sdk_error_code":0}')
    expect((await tagsOf()).slice(0, 2)).toEqual(['b', 'c'])
  })

  it('rejects an absent asset and foreign callers', async () => {
    const body = { experimentKey, assetId: 'nothing', tags: ['x'] }
    expectRefusal(await service.client.post('/write/experiment/asset/tag', body), 400, 8000030, /has no asset/)
    const query = new URLSearchParams({ experimentKey, assetId: 'nothing', tag: 'x' })
    const removed = await service.client.get(`/write/experiment/asset/tag/delete?${query}`)
    expectRefusal(removed, 400, 8000030, /has no asset/)
    const foreign = await service.stranger.post('/write/experiment/asset/tag', body)
    expectRefusal(foreign, 400, codes.experimentUnknown, /^There is no experiment /)
  })
})

describe('assets/remote/batch', () => {
  const path = '/write/experiment/assets/remote/batch'

  it.each(['remoteAssets', 'remoteEntities'])('keeps the links of %s, all in one', async (name) => {
    const own = await service.client.createExperiment()
    const remote = [
      { link: 's3://bucket/data/train.csv', type: 'dataframe', metadata: '{"a":  1}' },
      { link: 'gs://bucket/x', fileName: 'named', assetId: 'own-id', artifactVersionId: '' },
    ]

    const answer = await service.client.post(`${path}?experimentKey=${own}`, { [name]: remote })

    expect(answer.body).toMatchObject({ msg: 'Saved', assetIds: [expect.any(String), 'own-id'] })
    expect(await assets.list(own)).toMatchObject([
      { fileName: 'train.csv', type: 'dataframe', metadata: '{"a":  1}', link: remote[0]?.link, remote: true },
      { fileName: 'named', type: 'asset', assetId: 'own-id', link: 'gs://bucket/x', remote: true },
    ])
  })

  it('stores none when one is invalid', async () => {
    const own = await service.client.createExperiment()
    const body = { experimentKey: own, remoteAssets: [{ link: 's3://a/b' }, { fileName: 'x' }] }
    expectRefusal(await service.client.post(path, body), 400, codes.badRequest, 'remoteAssets[1].link: is missing')
    expectRefusal(
      await service.client.post(path, { experimentKey: own }),
      400,
      codes.badRequest,
      'remoteAssets: is missing',
    )
    expectRefusal(await service.client.post(path, {}), 400, codes.experimentKeyMissing, 'experimentKey: is missing')
    expect(await assets.list(own)).toEqual([])
  })
})

describe('git/patch', () => {
  it('stores the bytes of a part or of the body; a later patch replaces them', async () => {
    const own = await service.client.createExperiment()
    const path = `/experiment/git/patch?experimentKey=${own}`
    const write = `/write/experiment/git/patch?experimentKey=${own}`
    const missing = await service.client.get(path)
    expect([missing.status, missing.body.code, missing.body.msg]).toEqual([
      200,
      200,
      'The experiment has no git patch.',
    ])
    expect(missing.text).toMatch(/^\{"msg"/)

    for (const send of [{ body: Buffer.from('diff --git a\xff\r\n', 'latin1') }, aForm(Buffer.from('second\0'))]) {
      const answer = await assets.send(write, send)
      expect(answer.body).toMatchObject({ msg: 'Saved', assetId: expect.any(String) })
    }

    expect(String((await assets.readPath(path)).bytes)).toBe('second\0')
    expect(await assets.list(own, 'git-patch')).toHaveLength(1)
    expectRefusal(await service.stranger.get(path), 400, codes.experimentUnknown, /^There is no experiment /)
    expectRefusal(await assets.send(write, aForm(undefined, {})), 400, codes.badRequest, /^file: is missing/)
  })
})

describe('upload-text-sample', () => {
  it('keeps the text as an asset', async () => {
    const own = await service.client.createExperiment()
    const content = 'Grüße 🙂\n'
    const body = { apiKey: 'x', experimentKey: own, step: 3, context: 'eval', metadata: 'eyJhIjoxfQ==', content }

    const answer = await service.client.post('/write/experiment/upload-text-sample', body)

    expect(answer.body).toMatchObject({ msg: 'Saved', code: 200 })
    const expected = { type: 'text-sample', step: 3, runContext: 'eval', metadata: 'eyJhIjoxfQ==', fileSize: 13 }
    expect(await assets.list(own)).toMatchObject([expected])
    expect(String((await assets.read(own, answer.body.assetId as string)).bytes)).toBe(content)
  })
})
