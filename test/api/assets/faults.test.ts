import { randomBytes } from 'node:crypto'
import { mkdir, rename, rmdir } from 'node:fs/promises'
import { type ClientRequest, request } from 'node:http'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { createClosers } from '../../../runtime/closers.ts'
import { aForm, createAssetClient, lookInto, openOwnObjects } from '../../kit/clients/assets.ts'
import { eventually } from '../../kit/eventually.ts'
import { createClient } from '../../kit/http/client.ts'
import { startRole } from '../../kit/processes/svc.ts'
import { createUser, openOwnStores, openTestService } from '../../kit/service.ts'

const closers = createClosers()
afterEach(() => closers.closeAll())

const openStores = async () => {
  const objects = await openOwnObjects()
  closers.push(objects.close)
  return { ...(await openOwnStores('postgres')), objectsUrl: objects.url }
}

const megabyte = 1_000_000

/** Begins an upload and does not end it. */
function beginUpload(url: string, apiKey: string, path: string, headers: Record<string, string>): ClientRequest {
  const sent = request(`${url}/api/rest/v2${path}`, { method: 'POST', headers: { authorization: apiKey, ...headers } })
  sent.on('error', () => undefined)
  return sent
}

const answerOf = (sent: ClientRequest) =>
  new Promise<{ status: number; text: string }>((resolve, reject) => {
    sent.once('error', reject)
    sent.once('response', (answer) => {
      let text = ''
      answer.on('data', (chunk) => {
        text += chunk
      })
      answer.once('end', () => resolve({ status: answer.statusCode as number, text }))
    })
  })

describe('an upload that is cut off half-way leaves nothing behind,', () => {
  const partHead = '--x\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n'
  it.each([
    ['of a told length', { 'content-length': String(5 * megabyte) }, ''],
    ['in chunks', { 'transfer-encoding': 'chunked' }, ''],
    ['as a form', { 'transfer-encoding': 'chunked', 'content-type': 'multipart/form-data; boundary=x' }, partHead],
  ])('%s', async (_name, headers, before) => {
    const stores = await openStores()
    const inside = lookInto(stores)
    const service = await openTestService({ stores })
    closers.push(service.close)
    const assets = createAssetClient(service)
    const experimentKey = await service.client.createExperiment()
    const address = `/write/experiment/upload-asset?experimentKey=${experimentKey}`

    const sent = beginUpload(service.url, service.apiKey, address, headers)
    sent.write(before)
    sent.write(randomBytes(megabyte))
    await eventually(async () => expect(await inside.findFiles()).toHaveLength(1))
    sent.destroy()

    // The record of an orphaned object goes after the object.
    await eventually(async () => expect([await inside.findFiles(), await inside.countLoose()]).toEqual([[], 0]))
    expect(await assets.list(experimentKey)).toEqual([])
    // And the process goes on as before.
    expect((await assets.upload({ experimentKey }, aForm(Buffer.from('x')))).status).toBe(200)
  })
})

describe('an api process', () => {
  it('that is killed during an upload leaves nothing behind after its restart', async () => {
    const stores = await openStores()
    const inside = lookInto(stores)
    const user = await createUser(stores)
    const api = await startRole('api', stores)
    const client = createClient(api.url, user)
    const experimentKey = await client.createExperiment()
    const address = `/write/experiment/upload-asset?experimentKey=${experimentKey}`
    const sent = beginUpload(api.url, user.apiKey, address, { 'content-length': String(5 * megabyte) })
    sent.write(randomBytes(megabyte))
    await eventually(async () => expect(await inside.findFiles()).toHaveLength(1))

    api.kill('SIGKILL')
    await api.ended
    expect(await inside.findFiles()).toHaveLength(1)
    const next = await startRole('api', stores)
    closers.push(async () => {
      next.kill('SIGKILL')
      await next.ended
    })

    expect(await inside.findFiles()).toEqual([])
  })

  it('that is asked to end finishes the upload it has begun', async () => {
    const stores = await openStores()
    const inside = lookInto(stores)
    const user = await createUser(stores)
    const api = await startRole('api', stores)
    closers.push(async () => void api.kill('SIGKILL'))
    const client = createClient(api.url, user)
    const experimentKey = await client.createExperiment()
    const address = `/write/experiment/upload-asset?experimentKey=${experimentKey}`
    const bytes = randomBytes(2 * megabyte)
    const sent = beginUpload(api.url, user.apiKey, address, { 'content-length': String(bytes.length) })
    sent.write(bytes.subarray(0, megabyte))
    await eventually(async () => expect(await inside.findFiles()).toHaveLength(1))

    api.kill('SIGTERM')
    await eventually(async () => {
      await expect(fetch(`${api.url}/livez`)).rejects.toThrow()
    })
    const answer = answerOf(sent)
    sent.end(bytes.subarray(megabyte))

    expect(await answer).toMatchObject({ status: 200 })
    expect(await api.ended).toEqual({ code: 0, signal: null })
  })
})

describe('a store of objects that is away', () => {
  let service: Awaited<ReturnType<typeof openTestService>>
  let assets: ReturnType<typeof createAssetClient>
  let inside: ReturnType<typeof lookInto>
  let folder: string
  let experimentKey: string
  beforeEach(async () => {
    const stores = await openStores()
    inside = lookInto(stores)
    folder = fileURLToPath(stores.objectsUrl)
    service = await openTestService({ stores })
    closers.push(service.close)
    assets = createAssetClient(service)
    experimentKey = await service.client.createExperiment()
  })
  const takeAway = () => rename(folder, `${folder}-away`)
  const bringBack = () => rename(`${folder}-away`, folder)

  it('answers 503 to uploads without storing anything, and is not ready', async () => {
    await takeAway()
    for (const body of [aForm(randomBytes(100_000)), { body: randomBytes(100_000) }]) {
      const answer = await assets.upload({ experimentKey }, body)
      expect(answer).toMatchObject({ status: 503, body: { code: 503, data: null, sdk_error_code: 8000014 } })
      expect(Number(answer.headers.get('retry-after'))).toBeGreaterThan(0)
    }
    const ready = await fetch(`${service.url}/readyz`)
    expect(ready.status).toBe(503)
    expect(await ready.json()).toMatchObject({ checks: { postgres: 'ok', objects: expect.stringMatching(/ENOENT/) } })

    await bringBack()
    expect(await assets.list(experimentKey)).toEqual([])
    expect((await assets.upload({ experimentKey }, aForm(Buffer.from('x')))).status).toBe(200)
    expect(await inside.findFiles()).toHaveLength(1)
  })

  it('does not block the deletion of an asset: its object is deleted later', async () => {
    const { body } = await assets.upload({ experimentKey }, aForm(Buffer.from('x')))
    const query = new URLSearchParams({ experimentKey, assetId: body.assetId as string })
    const [object = ''] = await inside.findFiles()
    const file = path.join(folder, object)
    // A folder of its name: that cannot be deleted as a file.
    await rename(file, `${file}-away`)
    await mkdir(file)

    expect((await service.client.get(`/write/experiment/asset/delete?${query}`)).status).toBe(200)
    expect(await assets.list(experimentKey)).toEqual([])
    expect(await inside.countLoose()).toBe(1)

    await rmdir(file)
    await rename(`${file}-away`, file)
    await assets.upload({ experimentKey }, aForm(Buffer.from('y')))
    expect(await inside.countLoose()).toBe(0)
    expect(await inside.findFiles()).not.toContain(object)
  })
})

it('an asset’s object is deleted with its experiment', async () => {
  const stores = await openStores()
  const inside = lookInto(stores)
  const service = await openTestService({ stores })
  closers.push(service.close)
  const assets = createAssetClient(service)
  const experimentKey = await service.client.createExperiment()
  await assets.upload({ experimentKey }, aForm(Buffer.from('x')))
  expect(await inside.findFiles()).toHaveLength(1)

  await inside.query('DELETE FROM experiments WHERE key = $1', [experimentKey])
  expect(await inside.countLoose()).toBe(1)
  const other = await service.client.createExperiment()
  await assets.upload({ experimentKey: other, fileName: 'other' }, aForm(Buffer.from('y')))

  expect(await inside.countLoose()).toBe(0)
  expect(await inside.findFiles()).toHaveLength(1)
})
