import { afterAll, beforeAll, expect, it } from 'vitest'
import { aForm, createAssetClient } from '../../kit/clients/assets.ts'
import { openTestService, uniqueName } from '../../kit/service.ts'

let service: Awaited<ReturnType<typeof openTestService>>
let assets: ReturnType<typeof createAssetClient>
let experimentKey: string
beforeAll(async () => {
  service = await openTestService()
  assets = createAssetClient(service)
  experimentKey = await service.client.createExperiment()
})
afterAll(() => service?.close())

const post = async (path: string, body: object) => {
  const answer = await service.client.post(path, { experimentKey, ...body })
  expect(answer.status, answer.text).toBe(200)
  return answer.body
}

/** A closed version with these files; a link is a remote one. */
async function aVersion(artifactName: string, files: Record<string, string>) {
  const { artifactVersionId } = await post('/write/artifacts/upsert', { artifactName })
  for (const [fileName, text] of Object.entries(files)) {
    if (text.startsWith('s3:')) {
      const remoteArtifactAssetRequests = [{ link: text, fileName, artifactVersionId }]
      await service.client.post(`/write/artifact/assets/remote/batch?experimentKey=${experimentKey}`, {
        remoteArtifactAssetRequests,
      })
      continue
    }
    const of = { experimentKey, artifactVersionId: artifactVersionId as string, fileName }
    expect((await assets.upload(of, aForm(Buffer.from(text)))).status).toBe(200)
  }
  await post('/write/artifacts/state', { artifactVersionId, state: 'CLOSED' })
  return artifactVersionId as string
}

const diff = async (query: Record<string, string>) =>
  (await service.client.get(`/artifacts/version/diff?${new URLSearchParams(query)}`)).body

it('two versions differ by the checksums of their files, and by the addresses of remote ones', async () => {
  const name = uniqueName('artifact')
  const fromVersionId = await aVersion(name, { same: 'x', grown: 'a', gone: 'g', far: 's3://a', 'far same': 's3://b' })
  const toVersionId = await aVersion(name, { same: 'x', grown: 'abc', new: 'nn', far: 's3://c', 'far same': 's3://b' })
  const found = await diff({ fromVersionId, toVersionId })
  expect(found).toMatchObject({ added: 1, removed: 1, changed: 2, unchanged: 2, nextPage: null })
  expect(found.files).toMatchObject([
    { fileName: 'far', change: 'changed', from: { link: 's3://a' }, to: { link: 's3://c' } },
    { fileName: 'gone', change: 'removed', from: { fileSize: 1 }, to: null },
    { fileName: 'grown', change: 'changed', from: { fileSize: 1 }, to: { fileSize: 3 } },
    { fileName: 'new', change: 'added', from: null, to: { fileSize: 2 } },
  ])
  const pages = [await diff({ fromVersionId, toVersionId, pageSize: '3' })]
  pages.push(await diff({ fromVersionId, toVersionId, pageSize: '3', page: pages[0]?.nextPage as string }))
  expect(pages.flatMap((it) => it.files)).toEqual(found.files)
  expect((await diff({ fromVersionId, toVersionId, change: 'removed' })).files).toHaveLength(1)
  expect(await diff({ fromVersionId, toVersionId: fromVersionId })).toMatchObject({ unchanged: 5, files: [] })
})

it('a version that is not there, or not for the caller to see, is refused', async () => {
  const toVersionId = await aVersion(uniqueName('artifact'), { a: 'a' })
  expect((await diff({ fromVersionId: 'none', toVersionId })).msg).toMatch(/no such version/)
  expect((await diff({ toVersionId })).msg).toMatch(/^fromVersionId: is missing/)
  expect((await diff({ fromVersionId: toVersionId, toVersionId, change: 'moved' })).msg).toMatch(
    /^change: must be one of/,
  )
})

it('the files of a version are a tree', async () => {
  const versionId = await aVersion(uniqueName('artifact'), { 'data/a': '1', 'data/b': '22', readme: '333' })
  const { body } = await service.client.get(`/artifacts/version/tree?${new URLSearchParams({ versionId })}`)
  expect(body).toMatchObject({
    folders: [{ name: 'data', files: 2, bytes: 3 }],
    files: [{ fileName: 'readme', fileSize: 3, sha256: expect.stringMatching(/^[0-9a-f]{64}$/) }],
    filesBelow: 3,
  })
})
