import { spawnSync } from 'node:child_process'
import { createHash, randomBytes } from 'node:crypto'
import { mkdir, mkdtemp, readdir, rm, utimes, writeFile } from 'node:fs/promises'
import { hostname, tmpdir } from 'node:os'
import path from 'node:path'
import { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { pathToFileURL } from 'node:url'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createClosers } from '../../runtime/closers.ts'
import { findFreePort } from '../../store/embedded/free-port.ts'
import { createObjectKey } from '../../store/objects/object-key.ts'
import type { ObjectStore } from '../../store/objects/object-store.ts'
import { openObjects } from '../../store/objects/open-objects.ts'
import { openProxy } from '../kit/stores/proxy.ts'
import { startS3 } from '../kit/stores/s3.ts'

const closers = createClosers()
let folder: string
let s3Url: string | undefined
beforeAll(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'svc-objects-'))
  closers.push(() => rm(folder, { recursive: true, force: true }))
  const s3 = await startS3(path.join(folder, 's3'))
  if (s3) closers.push(s3.close)
  else console.warn('Tests of S3 are skipped: S3_TEST_URL is not set and there is no versitygw on the PATH.')
  s3Url = s3?.url
})
afterAll(() => closers.closeAll())

const toUrl = (name: string) => pathToFileURL(path.join(folder, name)).href
const sha256 = (bytes: Buffer) => createHash('sha256').update(bytes).digest('hex')
const read = async (store: ObjectStore, key: string, range?: { start: number; end: number }) =>
  await buffer(await store.get(key, range))
const mebibyte = 1024 * 1024

/** A stream that gives some bytes and then fails. */
function cutOff(bytes: number): Readable {
  return Readable.from(
    (async function* () {
      for (let given = 0; given < bytes; given += 64 * 1024) yield randomBytes(Math.min(64 * 1024, bytes - given))
      throw new Error('cut off')
    })(),
  )
}

describe.each(['folder', 's3'] as const)('objects in %s', (kind) => {
  let store: ObjectStore
  beforeAll(async () => {
    const url = kind === 'folder' ? toUrl('objects') : s3Url
    if (url === undefined) return
    store = await openObjects(url)
    closers.push(store.close)
  })
  const test = (name: string, run: () => Promise<void>) =>
    it(name, async (context) => {
      if (!store) return context.skip('there is no S3 server here')
      await run()
    })

  test('are read as they were stored, with their size and SHA-256', async () => {
    for (const size of [0, 1, 70_000, 9 * mebibyte + 1, 20 * mebibyte]) {
      const bytes = randomBytes(size)
      const key = createObjectKey()

      const stored = await store.put(key, Readable.from([bytes.subarray(0, size / 2), bytes.subarray(size / 2)]))

      expect(stored).toEqual({ bytes: size, sha256: sha256(bytes) })
      expect((await read(store, key)).equals(bytes), `${size} bytes`).toBe(true)
    }
  })

  test('are listed by key prefix, with their sizes', async () => {
    const folder = createObjectKey()
    for (const name of ['a/1', 'a/2', 'ab', 'b']) await store.put(`${folder}/${name}`, Readable.from([name]))
    const list = async (prefix: string) => {
      const found = await Array.fromAsync(store.list(`${folder}${prefix}`))
      return found.map(({ key, bytes }) => `${key.slice(folder.length + 1)} ${bytes}`).sort()
    }

    expect(await list('/')).toEqual(['a/1 3', 'a/2 3', 'ab 2', 'b 1'])
    expect(await list('/a')).toEqual(['a/1 3', 'a/2 3', 'ab 2'])
    expect(await list('/a/')).toEqual(['a/1 3', 'a/2 3'])
    expect(await list('/c')).toEqual([])
    const all = await Array.fromAsync(store.list(''))
    expect(all.filter(({ key }) => key.startsWith(folder))).toHaveLength(4)
  })

  test('can be read in part', async () => {
    const bytes = randomBytes(100_000)
    const key = createObjectKey()
    await store.put(key, Readable.from([bytes]))

    expect(await read(store, key, { start: 0, end: 0 })).toEqual(bytes.subarray(0, 1))
    expect((await read(store, key, { start: 70_000, end: 99_999 })).equals(bytes.subarray(70_000))).toBe(true)
  })

  test('are gone after deletion, and deleting an absent one succeeds', async () => {
    const key = createObjectKey()
    await store.put(key, Readable.from(['x']))

    await store.delete(key)
    await store.delete(key)

    await expect(store.get(key)).rejects.toThrow()
  })

  test('leave nothing behind when their stream fails, early or late', async () => {
    for (const bytes of [0, 100_000, 20 * mebibyte]) {
      const key = createObjectKey()
      await expect(store.put(key, cutOff(bytes))).rejects.toThrow('cut off')
      await expect(store.get(key)).rejects.toThrow()
    }
    if (kind === 'folder') expect(await readdir(path.join(folder, 'objects', '.incoming'))).toEqual([])
  })

  test('can be stored concurrently', async () => {
    const keys = Array.from({ length: 20 }, createObjectKey)
    await Promise.all(keys.map((key) => store.put(key, Readable.from([key]))))
    for (const key of keys) expect(String(await read(store, key))).toBe(key)
  })

  test('can be checked', async () => {
    await expect(store.check()).resolves.toBeUndefined()
  })
})

describe('a folder', () => {
  it('cleans up after a killed process, but not after a live one', async () => {
    const incoming = path.join(folder, 'swept', '.incoming')
    await mkdir(incoming, { recursive: true })
    const { pid: dead } = spawnSync('true')
    const old = `elsewhere.1.${'a'.repeat(8)}`
    const names = [`${hostname()}.${dead}.x`, `${hostname()}.${process.ppid}.x`, 'elsewhere.1.x', old]
    for (const name of names) await writeFile(path.join(incoming, name), 'half')
    await utimes(path.join(incoming, old), new Date(0), new Date(0))

    await openObjects(toUrl('swept'))

    expect((await readdir(incoming)).toSorted()).toEqual([names[1], 'elsewhere.1.x'].toSorted())
  })

  it('that cannot be written says so', async () => {
    await writeFile(path.join(folder, 'file'), '')
    await expect(openObjects(toUrl('file/objects'))).rejects.toThrow(/The folder for objects .* cannot be used: /)
  })
})

describe('an S3 store', () => {
  it('that does not answer fails with its address', async () => {
    const url = `s3://access:secret@127.0.0.1:${await findFreePort()}/bucket?tls=false`
    await expect(openObjects(url)).rejects.toThrow(/The object store at 127\.0\.0\.1:\d+ cannot be used: /)
  })

  it('without a bucket in its address fails with what to set', async () => {
    await expect(openObjects('s3://access:secret@127.0.0.1')).rejects.toThrow(
      /^OBJECTS_URL: must name a host and a bucket/,
    )
  })

  it('says when its bucket is not there, and when its key is refused', async (context) => {
    if (!s3Url) return context.skip('there is no S3 server here')
    await expect(openObjects(s3Url.replace(/\/[^/?]*\?/, '/nothing?'))).rejects.toThrow(/has no bucket "nothing"/)
    await expect(openObjects(s3Url.replace(/:[^:@]*@/, ':wrong@'))).rejects.toThrow(/refuses the key of OBJECTS_URL/)
  })

  it('that becomes unavailable is distinguished from our own errors', async (context) => {
    if (!s3Url) return context.skip('there is no S3 server here')
    const proxy = await openProxy(s3Url.replace('s3://', 'http://'))
    closers.push(proxy.close)
    const store = await openObjects(proxy.url.replace('http://', 's3://'))
    closers.push(store.close)

    proxy.cut()

    const away = expect.objectContaining({ name: 'StoreAway' })
    await expect(store.check()).rejects.toEqual(away)
    await expect(store.put(createObjectKey(), Readable.from(['x']))).rejects.toEqual(away)
    await expect(store.get(createObjectKey())).rejects.toEqual(away)
    await expect(store.delete(createObjectKey())).rejects.toEqual(away)
  })
})
