import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createAssetClient } from '../../kit/clients/assets.ts'
import { openTestService, uniqueName } from '../../kit/service.ts'

let service: Awaited<ReturnType<typeof openTestService>>
let assets: ReturnType<typeof createAssetClient>
let one: string
let other: string
beforeAll(async () => {
  service = await openTestService()
  assets = createAssetClient(service)
  const projectName = uniqueName('media')
  one = await service.client.createExperiment({ projectName })
  other = await service.client.createExperiment({ projectName })
})
afterAll(() => service?.close())

type Fields = Record<string, string>
type Medium = { assetId: string; kind: string; name: string; step: number | null; experimentKey: string }
type Name = { kind: string; name: string; count: number; experiments: number; steps: number; lastStep: number | null }

async function log(experimentKey: string, fileName: string, type: string, more: Fields = {}, content = 'x') {
  const sent = { body: Buffer.from(content), headers: { 'content-type': 'application/octet-stream' } }
  const answer = await assets.upload({ experimentKey, fileName, type, ...more }, sent)
  expect(answer.status, answer.text).toBe(200)
  return answer.body.assetId as string
}

async function ask(path: string, body: object) {
  const answer = await service.client.post(path, body)
  expect(answer.status, answer.text).toBe(200)
  return answer.body
}
const listNames = async (body: object) =>
  (await ask('/experiments/media/names', body)) as { names: Name[]; total: number; nextPage: string }
const list = async (body: object) =>
  (await ask('/experiments/media', body)) as { media: Medium[]; total: number; nextPage: string | null }

describe('media', () => {
  it('have the kind that their type says, or the content of a plain file', async () => {
    const experimentKey = await service.client.createExperiment()
    const kinds = {
      image: ['sample.png', 'image'],
      audio: ['said.wav', 'audio'],
      video: ['move.gif', 'video'],
      table: ['rows.json', 'dataframe'],
      curve: ['roc.json', 'curve'],
      histogram: ['weights.json', 'histogram3d'],
      'confusion-matrix': ['confusion.json', 'confusion-matrix'],
      points: ['scene.json', '3d-points'],
      embedding: ['digits.json', 'embeddings'],
      html: ['report.html', 'asset'],
    } as const
    for (const [fileName, type] of Object.values(kinds)) await log(experimentKey, fileName, type)
    await log(experimentKey, 'photo.JPG', 'asset')
    await log(experimentKey, 'data.csv', 'asset')
    // A part of the embedding, files that are no media, and files of artifacts.
    await log(experimentKey, 'digits-images.png', 'asset')
    await log(experimentKey, 'weights.bin', 'asset')
    await log(experimentKey, 'code.html', 'source_code')
    const { media } = await list({ experimentKeys: [experimentKey] })
    expect(Object.fromEntries(media.map((it) => [it.name, it.kind]))).toEqual({
      ...Object.fromEntries(Object.entries(kinds).map(([kind, [fileName]]) => [fileName, kind])),
      'photo.JPG': 'image',
      'data.csv': 'table',
    })
  })

  it('are counted by kind and name over runs and steps; random names are one', async () => {
    for (const step of ['1', '5', '9']) await log(one, 'a/sample.png', 'image', { step })
    await log(other, 'a/sample.png', 'image', { step: '5' })
    await log(other, 'b.png', 'image')
    for (const content of ['first', 'second']) {
      await service.client.post('/write/experiment/upload-text-sample', { experimentKey: one, content })
    }
    await log(one, 'text-0123456789abcdef.txt', 'text-sample', { step: '2' })
    const runs = { experimentKeys: [one, other, other, 'unknown'] }
    const { names, total } = await listNames(runs)
    expect(total).toBe(3)
    expect(names).toEqual([
      { kind: 'image', name: 'a/sample.png', count: 4, experiments: 2, steps: 3, firstStep: 1, lastStep: 9 },
      { kind: 'image', name: 'b.png', count: 1, experiments: 1, steps: 0, firstStep: null, lastStep: null },
      { kind: 'text', name: expect.any(String), count: 3, experiments: 1, steps: 1, firstStep: 2, lastStep: 2 },
    ])
    expect((await listNames({ ...runs, search: 'SAMPLE.P' })).total).toBe(1)
    expect((await listNames({ ...runs, kind: 'text' })).names.map((it) => it.count)).toEqual([3])
    expect(await ask('/experiments/media/steps', runs)).toMatchObject({
      steps: [1, 2, 5, 9],
      total: 4,
      truncated: false,
    })
    expect(await ask('/experiments/media/steps', { ...runs, name: 'a/sample.png' })).toMatchObject({ steps: [1, 5, 9] })
  })

  it('at a step are the newest of each run until then', async () => {
    const runs = { experimentKeys: [one, other], kind: 'image', name: 'a/sample.png' }
    const stepsAt = async (at: number) =>
      Object.fromEntries((await list({ ...runs, at })).media.map((it) => [it.experimentKey, it.step]))
    expect(await stepsAt(4)).toEqual({ [one]: 1 })
    expect(await stepsAt(8)).toEqual({ [one]: 5, [other]: 5 })
    expect(await stepsAt(2 ** 40)).toEqual({ [one]: 9, [other]: 5 })
    const within = await list({ ...runs, from: 5, to: 8 })
    expect([within.total, within.media.map((it) => it.step)]).toEqual([2, [5, 5]])
  })

  it('come a page at a time, each once', async () => {
    const experimentKey = await service.client.createExperiment()
    for (let step = 0; step < 7; step++) await log(experimentKey, 'it.png', 'image', { step: String(step) })
    const seen: (number | null)[] = []
    let page: string | null | undefined
    do {
      const answer = await list({ experimentKeys: [experimentKey], pageSize: 3, ...(page && { page }) })
      expect(answer.total).toBe(7)
      seen.push(...answer.media.map((it) => it.step))
      page = answer.nextPage
    } while (page)
    expect(seen).toEqual([0, 1, 2, 3, 4, 5, 6])
  })

  it.each([
    [{ experimentKeys: 'x' }, /^experimentKeys: expected a list/],
    [{ experimentKeys: [], kind: 'film' }, /^kind: must be one of image/],
    [{ experimentKeys: [], at: 'now' }, /^at: expected an integer/],
    [{ experimentKeys: [], pageSize: 0 }, /^pageSize: must be 1 or more/],
  ])('%j is refused by the field', async (body, message) => {
    const answer = await service.client.post('/experiments/media', body)
    expect([answer.status, answer.body.msg]).toEqual([400, expect.stringMatching(message)])
  })
})

describe('the tree of files', () => {
  type Tree = {
    folders: { name: string; files: number; bytes: number }[]
    files: { fileName: string; fileSize: number; remote: boolean }[]
    entries: number
    filesBelow: number
    bytesBelow: number
    nextPage: string | null
  }
  let experimentKey: string
  const read = async (query: Fields = {}) => {
    const answer = await service.client.get(
      `/experiment/asset/tree?${new URLSearchParams({ experimentKey, ...query })}`,
    )
    expect(answer.status, answer.text).toBe(200)
    return answer.body as unknown as Tree
  }
  beforeAll(async () => {
    experimentKey = await service.client.createExperiment()
    for (const [fileName, content] of [
      ['top.txt', '1'],
      ['/data//train/a.csv', '22'],
      ['data/train/b.csv', '333'],
      ['data/test.csv', '4444'],
      ['data%_/it.csv', '55555'],
    ] as const) {
      await log(experimentKey, fileName, 'asset', {}, content)
    }
    await log(experimentKey, 'weights.bin', 'model-element', { groupingName: 'net' }, '666666')
    const remoteAssets = [{ link: 's3://bucket/far.bin', fileName: 'far.bin' }]
    await service.client.post('/write/experiment/assets/remote/batch', { experimentKey, remoteAssets })
  })

  it('has folders with what is below them, then files', async () => {
    const top = await read()
    expect(top.folders).toEqual([
      { name: 'data', files: 3, bytes: 9 },
      { name: 'data%_', files: 1, bytes: 5 },
      { name: 'models', files: 1, bytes: 6 },
    ])
    expect(top.files.map((it) => [it.fileName, it.fileSize, it.remote])).toEqual([
      ['far.bin', 0, true],
      ['top.txt', 1, false],
    ])
    expect([top.entries, top.filesBelow, top.bytesBelow]).toEqual([5, 7, 21])
    const data = await read({ folder: 'data' })
    expect(data.folders).toEqual([{ name: 'train', files: 2, bytes: 5 }])
    expect(data.files.map((it) => it.fileName)).toEqual(['data/test.csv'])
    expect((await read({ folder: '/data/train/' })).filesBelow).toBe(2)
    expect((await read({ folder: 'models/net' })).files.map((it) => it.fileName)).toEqual(['weights.bin'])
    expect(await read({ folder: 'dat' })).toMatchObject({ entries: 0, filesBelow: 0 })
  })

  it('comes a page at a time over folders and files', async () => {
    const names: string[] = []
    let page: string | null = '0'
    while (page !== null) {
      const answer: Tree = await read({ page, pageSize: '2' })
      names.push(...answer.folders.map((it) => it.name), ...answer.files.map((it) => it.fileName))
      page = answer.nextPage
    }
    expect(names).toEqual(['data', 'data%_', 'models', 'far.bin', 'top.txt'])
  })

  it('is searched at any place', async () => {
    const found = await read({ search: 'TRAIN/' })
    expect(found.files.map((it) => it.fileName)).toEqual(['/data//train/a.csv', 'data/train/b.csv'])
    expect([found.entries, found.bytesBelow]).toEqual([2, 5])
  })

  it('is downloaded as a zip, all of it or a folder', async () => {
    const zip = await assets.readPath(
      `/experiment/asset/zip?${new URLSearchParams({ experimentKey, folder: 'data/train' })}`,
    )
    expect(zip.status).toBe(200)
    expect(zip.headers.get('content-disposition')).toContain('train.zip')
    const text = zip.bytes.toString('latin1')
    expect(text).toContain('data/train/a.csv')
    expect(text).not.toContain('test.csv')
    const all = await assets.readPath(`/experiment/asset/zip?${new URLSearchParams({ experimentKey })}`)
    expect(all.bytes.toString('latin1')).toContain('models/net/weights.bin')
    const none = await assets.readPath(
      `/experiment/asset/zip?${new URLSearchParams({ experimentKey, folder: 'nowhere' })}`,
    )
    expect(none.status).toBe(400)
  })
})

describe('HTML', () => {
  it('is a page in a sandbox without an origin, which loads nothing from elsewhere', async () => {
    const experimentKey = await service.client.createExperiment()
    const assetId = await log(experimentKey, 'report.html', 'asset', {}, '<p>report</p>')
    await service.client.post('/write/experiment/html', { experimentKey, html: '<p>document ä</p>' })
    for (const [path, text] of [
      [`/experiment/asset/page?${new URLSearchParams({ experimentKey, assetId })}`, '<p>report</p>'],
      [`/experiment/html/page?${new URLSearchParams({ experimentKey })}`, '<p>document ä</p>'],
    ] as const) {
      const { status, headers, bytes } = await assets.readPath(path)
      expect([status, bytes.toString()]).toEqual([200, text])
      expect(headers.get('content-type')).toBe('text/html; charset=utf-8')
      expect(headers.get('x-content-type-options')).toBe('nosniff')
      expect(headers.get('content-disposition')).toBeNull()
      const policy = headers.get('content-security-policy')?.split('; ') ?? []
      expect(policy).toEqual(expect.arrayContaining(['sandbox allow-scripts', "default-src 'none'"]))
      expect(policy.join()).not.toMatch(/allow-same-origin|connect-src|https?:/)
    }
  })
})
