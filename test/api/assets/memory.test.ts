import { createHash } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { Readable } from 'node:stream'
import { afterEach, expect, it } from 'vitest'
import { createClosers } from '../../../runtime/closers.ts'
import { createAssetClient, openOwnObjects } from '../../kit/clients/assets.ts'
import { inForm } from '../../kit/form.ts'
import { createClient } from '../../kit/http/client.ts'
import { startRole } from '../../kit/processes/svc.ts'
import { readMemory } from '../../kit/processes/usage.ts'
import { createUser, storesWith } from '../../kit/service.ts'
import { startS3 } from '../../kit/stores/s3.ts'

const mebibyte = 1024 * 1024
/** As large as time allows: what is held of a file shows at any size above the bound. `ASSET_TEST_MIB=1024` is the promise. */
const fileBytes = Number(process.env.ASSET_TEST_MIB ?? inForm({ short: 176, middle: 176, long: 1_024 })) * mebibyte
const growthBytesMax = 150 * mebibyte

const closers = createClosers()
afterEach(() => closers.closeAll())

it.for(['folder', 's3'] as const)(
  'a large file goes through %s and back in bounded memory',
  { timeout: 600_000 },
  async (kind, context) => {
    const objectsUrl = kind === 'folder' ? await openFolder() : await openS3()
    if (objectsUrl === undefined) return context.skip('there is no S3 server here')
    const stores = { ...storesWith('postgres'), objectsUrl }
    const user = await createUser(stores)
    const api = await startRole('api', stores)
    closers.push(async () => {
      api.kill('SIGKILL')
      await api.ended
    })
    const client = createClient(api.url, user)
    const assets = createAssetClient({ url: api.url, apiKey: user.apiKey, client })
    const experimentKey = await client.createExperiment()
    const warm = await assets.upload({ experimentKey, fileName: 'warm' }, { body: Buffer.alloc(mebibyte) })
    await assets.read(experimentKey, warm.body.assetId as string)
    const before = await readMemory(api.pid)
    if (!before) return context.skip('there is no /proc here: memory cannot be measured')
    const growth = async () => ((await readMemory(api.pid))?.peak ?? 0) - before.now
    const model = { type: 'model-element', groupingName: 'model' }

    const sent = createHash('sha256')
    const startedAt = performance.now()
    const answer = await assets.upload({ experimentKey, fileName: 'large', ...model }, { body: aFile(sent) })
    const uploadedAt = performance.now()
    const uploadGrowth = await growth()
    const paths = [
      `/experiment/asset/get-asset?${new URLSearchParams({ experimentKey, assetId: answer.body.assetId as string })}`,
      `/experiment/model/download?${new URLSearchParams({ experimentKey, modelName: 'model' })}`,
    ]
    const received = await Promise.all(paths.map((it) => measure(`${api.url}/api/rest/v2${it}`, user.apiKey)))
    const readAt = performance.now()
    const wholeGrowth = await growth()
    console.log(
      `${kind}: ${fileBytes / mebibyte} MiB; resident before ${toMiB(before.now)}, peak ${toMiB(before.now + wholeGrowth)}; ` +
        `grown by ${toMiB(uploadGrowth)} after the upload (${toSeconds(uploadedAt - startedAt)}), ` +
        `${toMiB(wholeGrowth)} after the download and the zip (${toSeconds(readAt - uploadedAt)})`,
    )

    expect(answer.status, answer.text).toBe(200)
    expect(received[0]).toEqual({ status: 200, bytes: fileBytes, sha256: sent.digest('hex') })
    expect(received[1]?.status).toBe(200)
    expect(wholeGrowth).toBeLessThan(growthBytesMax)
  },
)

async function openFolder() {
  const objects = await openOwnObjects()
  closers.push(objects.close)
  return objects.url
}

async function openS3() {
  const folder = await mkdtemp(path.join(tmpdir(), 'svc-test-s3-'))
  closers.push(() => rm(folder, { recursive: true, force: true }))
  const s3 = await startS3(folder)
  if (s3) closers.push(s3.close)
  return s3?.url
}

/** Bytes that a zip makes little of, each block another. */
function aFile(hash: ReturnType<typeof createHash>): ReadableStream {
  const block = Buffer.alloc(mebibyte, 'svc')
  const blocks = (function* () {
    for (let at = 0; at < fileBytes / mebibyte; at++) {
      const bytes = Buffer.from(block)
      bytes.writeUInt32LE(at)
      hash.update(bytes)
      yield bytes
    }
  })()
  return Readable.toWeb(Readable.from(blocks)) as ReadableStream
}

async function measure(url: string, apiKey: string) {
  const answer = await fetch(url, { headers: { authorization: apiKey } })
  const hash = createHash('sha256')
  let bytes = 0
  for await (const chunk of answer.body ?? []) {
    hash.update(chunk)
    bytes += chunk.length
  }
  return { status: answer.status, bytes, sha256: hash.digest('hex') }
}

const toMiB = (bytes: number) => `${Math.round(bytes / mebibyte)} MiB`
const toSeconds = (ms: number) => `${(ms / 1_000).toFixed(1)} s`
