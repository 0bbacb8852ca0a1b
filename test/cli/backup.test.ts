import { cp, mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest'
import { createClosers } from '../../runtime/closers.ts'
import { createAssetClient } from '../kit/clients/assets.ts'
import { eventually } from '../kit/eventually.ts'
import { inForm } from '../kit/form.ts'
import { expectPlainFailure } from '../kit/processes/expect.ts'
import { clientOf, type OnClose, runSvc, startUp, svc, type Up } from '../kit/processes/svc.ts'
import { mountSmallDisk, NoSmallDisk } from '../kit/stores/small-disk.ts'

/** What may go wrong with a backup. That one brings everything back is told by `test/flow/13`. */
const apiKey = 'a-key-for-the-admin-of-this-test'

/** Stores are started and filled several times over. */
vi.setConfig({ testTimeout: 900_000, hookTimeout: 900_000 })
const closers = createClosers()
const atEnd: OnClose = (close) => closers.push(async () => void (await close()))
const ofTest = createClosers()
const onClose: OnClose = (close) => ofTest.push(async () => void (await close()))
afterEach(() => ofTest.closeAll())

const newFolder = async (onEnd: OnClose) => {
  const folder = await mkdtemp(path.join(tmpdir(), 'svc-backup-'))
  onEnd(() => rm(folder, { recursive: true, force: true, maxRetries: 10 }))
  return folder
}

let folder: string
let up: Up
let experimentKey: string
let assetId: string
/** A whole backup of the running service; tests that damage it copy it. */
let place: string
let id: string
const start = (dataFolder: string, onEnd: OnClose) => startUp(dataFolder, { SVC_BOOTSTRAP_API_KEY: apiKey }, onEnd)
beforeAll(async () => {
  folder = await newFolder(atEnd)
  up = await start(folder, atEnd)
  const client = clientOf(up, apiKey)
  experimentKey = await client.createExperiment()
  await client.post('/write/experiment/metric', { experimentKey, metricName: 'loss', metricValue: 0.5, step: 1 })
  await client.readPoints(experimentKey, 'loss', 1)
  const assets = createAssetClient({ url: up.url, apiKey, client })
  const query = { experimentKey, fileName: 'file' }
  const sent = { body: Buffer.alloc(100_000, 7), headers: { 'content-type': 'application/octet-stream' } }
  assetId = (await assets.upload(query, sent)).body.assetId as string
  place = path.join(await newFolder(atEnd), 'backups')
  id = JSON.parse((await run(['backup', '--to', place, '--json'])).stdout).id
})
afterAll(() => closers.closeAll())

const environment = (dataFolder = folder) => ({ SVC_DATA_DIR: dataFolder })

async function run(args: string[], dataFolder?: string) {
  const outcome = await svc(args, environment(dataFolder), onClose)
  expect(outcome.code, outcome.stderr).toBe(0)
  return outcome
}
const fail = async (args: string[], said: RegExp, dataFolder?: string) =>
  expectPlainFailure(await svc(args, environment(dataFolder), onClose), said)

async function copyOfPlace(): Promise<string> {
  const copy = path.join(await newFolder(onClose), 'backups')
  await cp(place, copy, { recursive: true })
  return copy
}

async function expectRestored(dataFolder: string) {
  const restored = await start(dataFolder, onClose)
  const client = clientOf(restored, apiKey)
  expect(await client.readMetric(experimentKey, 'loss')).toMatchObject([{ metricValue: '0.5', step: 1 }])
  const { bytes } = await createAssetClient({ url: restored.url, apiKey, client }).read(experimentKey, assetId)
  expect(bytes.equals(Buffer.alloc(100_000, 7))).toBe(true)
}

/** Kills a command as soon as it has printed something. */
async function killAt(args: string[], printed: RegExp, dataFolder?: string) {
  const running = runSvc(args, environment(dataFolder), onClose)
  running.killAt(printed)
  expect((await running.ended).signal, running.output()).toBe('SIGKILL')
}

/** Makes a backup that is killed before its end. On a busy machine it may have come to it: that one must be whole. */
async function makeUnfinished(at: RegExp): Promise<{ own: string; unfinished: string[] }> {
  for (let attempts = 0; attempts < 10; attempts++) {
    const own = path.join(await newFolder(onClose), 'backups')
    await killAt(['backup', '--to', own], at)
    const { backups, unfinished } = JSON.parse((await run(['backup', 'list', '--to', own, '--json'])).stdout)
    if (backups.length === 0) return { own, unfinished }
    await run(['backup', 'verify', '--to', own])
  }
  throw new Error('Ten backups came to their end before they were killed.')
}

/** What a backup and a restore print when they come to it. */
const steps = inForm({ short: [/ClickHouse/], middle: [/ClickHouse/], long: [/Postgres/, /queue/, /ClickHouse/] })

describe('a backup', () => {
  it.each(steps)('that is killed after %s is none, and the next one is whole', async (at) => {
    const { own, unfinished } = await makeUnfinished(at)
    expect(unfinished).toHaveLength(1)
    await fail(['restore', '--from', own], /There is no complete backup here/, await newFolder(onClose))
    await fail(
      ['backup', 'verify', unfinished[0] as string, '--to', own],
      /There is no complete backup .*there is none/,
    )

    // The one that was killed may be held to be going on for a moment.
    await eventually(async () => run(['backup', '--to', own]), 30_000)
    await run(['backup', 'verify', '--to', own])
    expect(await readdir(path.join(folder, 'clickhouse/backups'))).toEqual([])
  })

  it('is told to the service, with its place and without those that are gone', async () => {
    const own = path.join(await newFolder(onClose), 'backups')
    const make = async () => JSON.parse((await run(['backup', '--to', own, '--keep', '1', '--json'])).stdout)
    const first = await make()
    const second = await make()
    const { body } = await clientOf(up, apiKey).get('/admin/backups')
    const backups = body.backups as { backupId: string }[]
    expect(backups[0]).toEqual({
      backupId: second.id,
      place: own,
      startedAt: Date.parse(second.startedAt),
      finishedAt: Date.parse(second.finishedAt),
      bytes: second.bytes,
      version: second.version,
    })
    expect(backups.map((it) => it.backupId)).toContain(id)
    expect(backups.map((it) => it.backupId)).not.toContain(first.id)
  })

  it('copies objects once, and with --keep deletes what no backup has any more', async () => {
    const own = path.join(await newFolder(onClose), 'backups')
    const client = clientOf(up, apiKey)
    const assets = createAssetClient({ url: up.url, apiKey, client })
    const sent = { body: Buffer.from('soon gone'), headers: { 'content-type': 'application/octet-stream' } }
    const { body } = await assets.upload({ experimentKey, fileName: 'other' }, sent)
    const pool = async () =>
      (await readdir(path.join(own, 'objects'), { recursive: true, withFileTypes: true })).filter((it) => it.isFile())
    const make = async () => JSON.parse((await run(['backup', '--to', own, '--keep', '2', '--json'])).stdout)
    const first = await make()
    expect((await pool()).length).toBe(first.objects)
    await client.get(`/write/experiment/asset/delete?experimentKey=${experimentKey}&assetId=${body.assetId}`)
    const second = await make()
    expect(second.objects).toBe(first.objects - 1)
    expect((await pool()).length).toBe(first.objects)
    const third = await make()
    expect(third.deleted).toEqual([first.id])
    expect((await pool()).length).toBe(second.objects)
    const { backups } = JSON.parse((await run(['backup', 'list', '--to', own, '--json'])).stdout)
    expect(backups.map((it: { id: string }) => it.id)).toEqual([second.id, third.id])
    await run(['backup', 'verify', second.id, '--to', own])
  })

  it('is for its owner alone to read', async () => {
    expect((await stat(place)).mode & 0o077).toBe(0)
  })

  it('says what is missing where it cannot be made', async () => {
    await fail(['backup'], /The place of the backups is missing/)
    await fail(['backup', '--to', place], /There is nothing to copy: .* has no stores/, path.join(tmpdir(), 'svc-none'))
    await fail(['backup', 'list', '--to', 's3://127.0.0.1/'], /SVC_BACKUP_URL: must name a host and a bucket/)
    const given = { CLICKHOUSE_URL: 'http://127.0.0.1:1/svc', POSTGRES_URL: 'postgres://127.0.0.1:1/svc' }
    const outcome = await svc(['backup', '--to', place], given, onClose)
    expectPlainFailure(outcome, /cannot write to this folder\. Keep backups in S3 .* SVC_BACKUP_CLICKHOUSE/)
    await fail(['backup', '--to', place, '--keep', '0'], /--keep must be 1 or more/)
    await fail(['backup', 'destroy', '--to', place], /Usage: svc backup/)
  })

  it('is not begun where there is too little room', async (context) => {
    const small = await newFolder(onClose)
    try {
      await mountSmallDisk(small, 8_000_000, ofTest)
    } catch (error) {
      if (error instanceof NoSmallDisk) return context.skip(error.message)
      throw error
    }
    await fail(
      ['backup', '--to', small],
      /^svc: Only \d+ MB are free on the disk of .*\. Free some space, or choose another/,
    )
    expect(JSON.parse((await run(['backup', 'list', '--to', small, '--json'])).stdout)).toEqual({
      backups: [],
      unfinished: [],
    })
  })
})

describe('a restore', () => {
  it.each(steps)(
    'that is killed after %s keeps the service from starting, and ends well when it is repeated',
    async (at) => {
      const own = await newFolder(onClose)
      // Once for the start of the embedded store, once for what is restored into it.
      const again = new RegExp(at.source === 'queue' ? at.source : `${at.source}[^]*${at.source}`)
      await killAt(['restore', '--from', place], again, own)
      const started = await svc(['up'], { ...environment(own), SVC_PORT: '0' }, onClose)
      expect(started.code).toBe(1)
      expect(started.stderr).toMatch(/holds a part of the backup .* or repeat "svc restore"/)

      await run(['restore', id, '--from', place], own)
      await expectRestored(own)
    },
  )

  it('refuses a damaged backup by the name of the file, and changes nothing', async () => {
    const own = await newFolder(onClose)
    const damage = async (name: string, change: (file: string) => Promise<unknown>) => {
      const copy = await copyOfPlace()
      const file = path.join(copy, name)
      await change(file)
      return copy
    }
    const turnByte = async (file: string) => {
      const bytes = await readFile(file)
      bytes.writeUInt8(bytes.readUInt8(bytes.length >> 1) ^ 1, bytes.length >> 1)
      await writeFile(file, bytes)
    }
    const [object] = (await readdir(path.join(place, 'objects'), { recursive: true })).filter((it) => it.includes('/'))
    for (const [name, change, said] of [
      [`backups/${id}/clickhouse.tar`, turnByte, /clickhouse\.tar has other content than was written/],
      [`backups/${id}/postgres/users.copy.zst`, (file: string) => rm(file), /users\.copy\.zst is missing/],
      [`backups/${id}/queue/metrics.ndjson.zst`, (file: string) => writeFile(file, ''), /ndjson\.zst has 0 bytes, not/],
      [`objects/${object}`, turnByte, /objects\/.* has other content than was written/],
      [`backups/${id}/manifest.json`, (file: string) => writeFile(file, '{'), /manifest\.json is damaged/],
    ] as const) {
      const copy = await damage(name, change)
      await fail(['backup', 'verify', '--to', copy], said)
      // A restore checks by the same lines.
      if (name.endsWith('.tar')) await fail(['restore', '--from', copy], said, own)
    }
    expect(await readdir(own)).toEqual([])
  })

  it('leaves stores alone that are in use or hold something, unless it is told to replace it', async () => {
    await fail(['restore', '--from', place], /The data folder .* is in use by process/)
    const own = await newFolder(onClose)
    const other = await start(own, onClose)
    const otherKey = await clientOf(other, apiKey).createExperiment()
    other.kill('SIGTERM')
    await other.ended
    await fail(['restore', '--from', place], /The stores are not empty, they contain 1 experiments.*--replace/, own)
    await fail(['restore', 'absent', '--from', place], /There is no complete backup "absent" here: there are/, own)

    await run(['restore', '--from', place, '--replace'], own)
    await expectRestored(own)
    expect(otherKey).not.toBe(experimentKey)
  })

  it('fills a folder that was started once and not used', async () => {
    const own = await newFolder(onClose)
    const unused = await start(own, onClose)
    unused.kill('SIGTERM')
    await unused.ended
    const { stdout } = await run(['restore', '--from', place, '--json'], own)
    expect(JSON.parse(stdout)).toMatchObject({ restored: id })
  })

  it('of a newer version is refused', async () => {
    const copy = await copyOfPlace()
    const file = path.join(copy, 'backups', id, 'manifest.json')
    const manifest = JSON.parse(await readFile(file, 'utf8'))
    manifest.postgres.migrations.push('9999_later')
    await writeFile(file, JSON.stringify(manifest))
    const own = await newFolder(onClose)
    await mkdir(own, { recursive: true })
    await fail(['restore', '--from', copy], /made by a newer version of svc.*9999_later/, own)
  })
})
