import { randomBytes } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { aForm, createAssetClient } from '../../kit/clients/assets.ts'
import { readZip } from '../../kit/zip.ts'
import { openTwoUsers, type TwoUsers } from '../accounts/two-users.ts'
import { codes, expectRefusal } from '../http-error.ts'

let service: TwoUsers
let assets: ReturnType<typeof createAssetClient>
let experimentKey: string
beforeAll(async () => {
  service = await openTwoUsers()
  assets = createAssetClient(service)
  experimentKey = await service.client.createExperiment()
})
afterAll(() => service?.close())

const addFile = async (modelName: string, fileName: string, bytes: Uint8Array<ArrayBuffer>) => {
  const query = { experimentKey, type: 'model-element', groupingName: modelName, fileName }
  const answer = await assets.upload(query, aForm(bytes))
  expect(answer.status, answer.text).toBe(200)
}
const about = (modelName: string) => new URLSearchParams({ experimentKey, modelName })

describe('a model of an experiment', () => {
  it('is created once, by its first file', async () => {
    await addFile('listed', 'a.bin', Buffer.from('a'))
    await addFile('listed', 'b.bin', Buffer.from('b'))

    const { body } = await service.client.get(`/experiment/model?experimentKey=${experimentKey}`)

    const listed = (body.models as { modelName: string }[]).filter((it) => it.modelName === 'listed')
    const id = expect.stringMatching(/^[0-9a-f]{32}$/)
    expect(listed).toEqual([{ experimentModelId: id, experimentKey, modelName: 'listed', registryRecords: [] }])
    const files = await service.client.get(`/experiment/model/asset/list?${about('listed')}`)
    expect(files.body.assets).toMatchObject([
      { fileName: 'a.bin', type: 'model-element', dir: 'models/listed' },
      { fileName: 'b.bin' },
    ])
  })

  it('downloads as a zip of DEFLATE entries, byte for byte', async () => {
    const files: [string, Buffer<ArrayBuffer>][] = [
      ['weights/model.pt', randomBytes(300_000)],
      ['empty', Buffer.alloc(0)],
      ['Größe.txt', Buffer.from('x'.repeat(100_000))],
    ]
    for (const [name, bytes] of files) await addFile('zipped', name, bytes)

    const { status, headers, bytes } = await assets.readPath(`/experiment/model/download?${about('zipped')}`)

    expect(status).toBe(200)
    expect(headers.get('content-type')).toBe('application/zip')
    expect(headers.get('content-disposition')).toBe('attachment; filename=zipped.zip')
    expect(bytes.length).toBeLessThan(310_000)
    expect(readZip(bytes)).toEqual(files.map(([name, content]) => ({ name, method: 8, bytes: content })))
  })

  it('unpacks into its folder, whatever the names of its files', async () => {
    const inZip: Record<string, string> = {
      ...{ '../../etc/passwd': 'etc/passwd', '/abs': 'abs', 'C:\\x': 'C_/x', 'a/../b': 'a/b', '..': 'file' },
      // Windows drops dots and spaces at an end, and opens devices by their names.
      ...{
        '.. /.. /c': 'c',
        'a/... /d. ': 'a/d',
        'e::$DATA': 'e__$DATA',
        CON: '_CON',
        'a/nul.txt': 'a/_nul.txt',
        'console.log': 'console.log',
      },
      ...{
        '\\\\host\\share\\f': 'host/share/f',
        'g\nh\r': 'g_h_',
        same: 'same',
        Same: 'Same (2)',
        'same ': 'same (3)',
      },
    }
    for (const name of Object.keys(inZip)) await addFile('unsafe', name, Buffer.from(name))
    const { bytes } = await assets.readPath(`/experiment/model/download?${about('unsafe')}`)
    const names = readZip(bytes).map((it) => it.name)
    expect(names).toEqual(Object.values(inZip))
    for (const name of ['twice', 'twice']) await addFile('repeated', name, Buffer.from(name))
    const { bytes: repeated } = await assets.readPath(`/experiment/model/download?${about('repeated')}`)
    expect(readZip(repeated).map((it) => it.name)).toEqual(['twice', 'twice (2)'])
  })

  it('leaves remote files out of its zip', async () => {
    const query = { experimentKey, type: 'model-element', groupingName: 'remote', isRemote: 'true', link: 's3://a/b' }
    await assets.upload(query, aForm(undefined, { fileName: 'remote' }))
    const { status, bytes } = await assets.readPath(`/experiment/model/download?${about('remote')}`)
    expect([status, readZip(bytes)]).toEqual([200, []])
  })

  it.each(['/experiment/model/asset/list', '/experiment/model/download'])(
    '%s refuses one that is not there',
    async (path) => {
      expectRefusal(await service.client.get(`${path}?${about('none')}`), 400, 8000031, /has no model "none"/)
      const foreign = await service.stranger.get(`${path}?${about('none')}`)
      expectRefusal(foreign, 400, codes.experimentUnknown, /^There is no experiment /)
    },
  )

  it('whose download stalls does not keep files open', async () => {
    for (let at = 0; at < 3; at++) await addFile('left', `${at}.bin`, randomBytes(5_000_000))
    const headers = { authorization: service.apiKey }
    const answer = await fetch(`${service.url}/api/rest/v2/experiment/model/download?${about('left')}`, { headers })
    const reader = (answer.body as ReadableStream).getReader()
    await reader.read()
    await reader.cancel()
    const again = await assets.readPath(`/experiment/model/download?${about('left')}`)
    expect(readZip(again.bytes)).toHaveLength(3)
  })
})

it('a project’s share code allows reading its assets, not writing', async () => {
  const { client, url } = service
  const { body } = await client.get(`/experiment/metadata?experimentKey=${experimentKey}`)
  const shared = await client.get(`/write/project/add-share-link?projectId=${body.projectId}`)
  const query = new URLSearchParams({ experimentKey, shareCode: shared.body.shareCode as string })

  expect((await fetch(`${url}/api/rest/v2/experiment/asset/list?${query}`)).status).toBe(200)
  const upload = await fetch(`${url}/api/rest/v2/write/experiment/upload-asset?${query}`, { method: 'POST', body: 'x' })
  expect(upload.status).toBe(401)
})
