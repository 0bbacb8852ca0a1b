import { Readable } from 'node:stream'
import pg from 'pg'
import { createClosers } from '../../runtime/closers.ts'
import { checkLayout } from '../clickhouse/cluster/check.ts'
import { openClickHouse } from '../clickhouse/connection.ts'
import type { ObjectStore } from '../objects/object-store.ts'
import { openObjects } from '../objects/open-objects.ts'
import { keepingLock } from '../postgres/assets/orphaned-objects.ts'
import { openQueueBackend } from '../queue/open-queue.ts'
import type { Block } from '../queue/queue.ts'
import { queueNames } from '../queue/queues.ts'
import { type ClickHouseRoute, copyClickHouse } from './clickhouse-copy.ts'
import { createFiles, type Files, readLines } from './files.ts'
import {
  createBackupId,
  type KeptObject,
  listBackups,
  type Manifest,
  readManifest,
  toFileKey,
  toPoolKey,
} from './manifest.ts'
import { copyLaterDeadLetters, copyPostgres, readSequences } from './postgres-copy.ts'
import { checkSpace } from './space.ts'

/**
 * A backup contains everything acknowledged before it began, although the service runs on. This order makes it consistent:
 *
 * 1. Postgres, in one snapshot. Rows of anything confirmed there (such as a prediction id) were in the queue before.
 * 2. The queue: its blocks at one moment. Blocks that have left it are in ClickHouse.
 * 3. ClickHouse, then the dead letters that were added meanwhile.
 * 4. Objects. None is freed between the snapshot and the end of the copy.
 *
 * So each store may contain more than the stores before it, never less. `restore` deletes the surplus (rows of experiments and
 * events that Postgres does not know), stores the blocks of the queue (rows stored twice are merged), and rebuilds the derived
 * tables of ClickHouse.
 */
export type Stores = {
  clickhouseUrl: string
  /** The cluster that the server belongs to. */
  clickhouseCluster?: string | undefined
  clickhouseInsertQuorum?: string | undefined
  postgresUrl: string
  redisUrl: string | undefined
  objectsUrl: string
  queuePrefix: string
}

/** Runs a step and shows it; `say` reports its progress. */
export type Step = <T>(what: string, work: (say: (text: string) => void) => Promise<T>) => Promise<T>

type Settings = {
  stores: Stores
  target: ObjectStore
  targetUrl: string
  route: ClickHouseRoute
  /** The version of svc. */
  version: string
  step: Step
}

export const openStoredRows = ({ clickhouseUrl: url, clickhouseCluster: cluster, clickhouseInsertQuorum }: Stores) =>
  openClickHouse({ url, cluster, insertQuorum: clickhouseInsertQuorum })

/** Allows one backup of a service at a time. */
const backupLock = 7_392_005

/** Makes a backup. Resolves with its manifest once everything is written. */
export async function makeBackup({ stores, target, targetUrl, route, version, step }: Settings): Promise<Manifest> {
  const closers = createClosers()
  const onError = () => undefined
  try {
    closers.push(await holdLocks(stores.postgresUrl))
    const clickhouse = openStoredRows(stores)
    closers.push(() => clickhouse.close())
    await checkLayout(clickhouse)
    await checkSpace(clickhouse, route, targetUrl)
    const { postgresUrl, queuePrefix: prefix } = stores
    const backend = openQueueBackend({ ...stores, prefix, onError })
    closers.push(() => backend.close())
    const source = await openObjects(stores.objectsUrl)
    closers.push(source.close)

    const startedAt = new Date()
    const id = createBackupId(startedAt)
    const files = createFiles(target, id)
    let isComplete = false
    // An interrupted backup is deleted.
    closers.push(async () => {
      if (!isComplete) for await (const { key } of target.list(toFileKey(id, ''))) await target.delete(key)
    })
    const copied = await step('Postgres', () => copyPostgres(postgresUrl, files))
    const { masterKey, objectKeys, deadLetters, ...postgres } = copied
    const queue = await step('queue', async (say) => {
      const kept: Manifest['queue'] = []
      for (const name of queueNames) kept.push(await copyQueue(name, backend.readBlocks(name), files, say))
      return kept
    })
    const inClickhouse = await step('ClickHouse', (say) =>
      copyClickHouse(clickhouse, route, { id, target, files }, say),
    )
    postgres.tables.push(...(await copyLaterDeadLetters(postgresUrl, files, deadLetters)))
    postgres.sequences = await readSequences(postgresUrl)
    const objects = await step('objects', (say) => copyObjects({ keys: objectKeys, source, target, files, say }))

    const manifest: Manifest = {
      format: 1,
      id,
      startedAt: startedAt.toISOString(),
      finishedAt: new Date().toISOString(),
      version,
      masterKey,
      postgres,
      clickhouse: inClickhouse,
      queue,
      objects,
      files: files.files,
    }
    await target.put(toFileKey(id, 'manifest.json'), toStream(`${JSON.stringify(manifest, null, 2)}\n`))
    isComplete = true
    return manifest
  } finally {
    await closers.closeAll().catch(() => undefined)
  }
}

/** Prevents the freeing of objects and other backups until the returned function is called. */
async function holdLocks(postgresUrl: string): Promise<() => Promise<void>> {
  const client = new pg.Client({ connectionString: postgresUrl, connectionTimeoutMillis: 10_000, keepAlive: true })
  client.on('error', () => undefined)
  await client.connect()
  const { rows } = await client.query('SELECT pg_try_advisory_lock($1) AS "isHeld"', [backupLock])
  if (!rows[0]?.isHeld) {
    await client.end()
    throw new Error('Another backup of this service is running. Wait until it has ended.')
  }
  await client.query('SELECT pg_advisory_lock($1)', [keepingLock])
  return () => client.end()
}

async function copyQueue(name: string, blocks: AsyncIterable<Block>, files: Files, say: (text: string) => void) {
  const kept = { name, blocks: 0, rows: 0, file: `queue/${name}.ndjson.zst` }
  async function* toLines() {
    for await (const { rows, receivedMs, bytes } of blocks) {
      kept.blocks++
      kept.rows += rows
      say(`${name}: ${kept.blocks} blocks`)
      yield { rows, receivedMs, block: bytes.toString('base64') }
    }
  }
  await files.putLines(kept.file, toLines())
  return kept
}

type Objects = { keys: string[]; source: ObjectStore; target: ObjectStore; files: Files; say(text: string): void }

const objectsAtOnce = 4

/** Copies the objects that are not yet in the pool. */
async function copyObjects({ keys, source, target, files, say }: Objects): Promise<Manifest['objects']> {
  const earlier = await findEarlier(target)
  const pool = new Map<string, number>()
  for await (const { key, bytes } of target.list(toPoolKey(''))) pool.set(key, bytes)
  const kept: KeptObject[] = []
  const missing: string[] = []
  let bytes = 0
  const waiting = keys.values()
  const copyOn = async () => {
    for (const key of waiting) {
      const known = earlier.get(key)
      const object = known && pool.get(toPoolKey(key)) === known.bytes ? known : await copyObject(key, source, target)
      if (object) {
        kept.push(object)
        bytes += object.bytes
        say(`${kept.length} of ${keys.length}, ${Math.round(bytes / 1e6)} MB`)
      } else missing.push(key)
    }
  }
  await Promise.all(Array.from({ length: objectsAtOnce }, copyOn))
  const file = 'objects.ndjson.zst'
  await files.putLines(
    file,
    kept.sort((a, b) => (a.key < b.key ? -1 : 1)),
  )
  return { count: kept.length, bytes, file, missing: missing.sort() }
}

async function copyObject(key: string, source: ObjectStore, target: ObjectStore): Promise<KeptObject | undefined> {
  try {
    return { key, ...(await target.put(toPoolKey(key), await source.get(key))) }
  } catch (error) {
    // A missing object must not prevent the backup of the others.
    const { code, name } = error as NodeJS.ErrnoException
    if (code === 'ENOENT' || name === 'NoSuchKey') return undefined
    throw error
  }
}

/** The objects in the pool, from the list of the newest complete backup. */
async function findEarlier(target: ObjectStore): Promise<Map<string, KeptObject>> {
  const newest = (await listBackups(target)).filter((it) => it.isComplete).at(-1)
  const found = new Map<string, KeptObject>()
  if (!newest) return found
  try {
    const { objects } = await readManifest(target, newest.id)
    for await (const object of readLines<KeptObject>(target, newest.id, objects.file)) found.set(object.key, object)
    return found
  } catch (error) {
    if (error instanceof Error && error.name === 'StoreAway') throw error
    // The list is damaged: copy all objects again.
    return new Map()
  }
}

const toStream = (text: string) => Readable.from([Buffer.from(text)])
