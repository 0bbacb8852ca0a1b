import { randomBytes } from 'node:crypto'
import { buffer } from 'node:stream/consumers'
import { z } from 'zod'
import type { ObjectStore } from '../objects/object-store.ts'

/**
 * The contents of a backup. Its files are below `backups/<id>/`. The manifest is written last, so a backup with a manifest is
 * complete. Objects never change, so all backups of a place share one pool, `objects/<key>`, and each lists its own objects.
 */
const file = z.object({
  /** The path below the folder of the backup. */
  name: z.string(),
  bytes: z.int(),
  sha256: z.string().optional(),
  /** For files that ClickHouse wrote to S3 itself: we have no hash of them. */
  etag: z.string().optional(),
})

const clickhousePlace = z.discriminatedUnion('kind', [
  /** One of the files of the backup. */
  z.object({ kind: z.literal('file') }),
  /** A folder in the bucket of the backups, written by ClickHouse. */
  z.object({ kind: z.literal('s3') }),
  /** On a disk of ClickHouse. */
  z.object({ kind: z.literal('disk'), disk: z.string(), path: z.string() }),
  /** Rows, in files of the backup; restores into a server or a cluster of any size. */
  z.object({
    kind: z.literal('rows'),
    tables: z.array(z.object({ name: z.string(), columns: z.array(z.string()), files: z.array(z.string()) })),
  }),
])

const manifest = z.object({
  format: z.literal(1),
  id: z.string(),
  startedAt: z.iso.datetime(),
  finishedAt: z.iso.datetime(),
  /** The version of svc. */
  version: z.string(),
  /** The fingerprint of the master key; null if there was none. */
  masterKey: z.string().nullable(),
  postgres: z.object({
    version: z.string(),
    migrations: z.array(z.string()),
    tables: z.array(z.object({ name: z.string(), columns: z.array(z.string()), rows: z.int(), file: z.string() })),
    sequences: z.record(z.string(), z.string()),
    /** The number of the last claim of events in the snapshot. */
    lastClaim: z.string(),
  }),
  clickhouse: z.object({ version: z.string(), database: z.string(), place: clickhousePlace, rows: z.int() }),
  queue: z.array(z.object({ name: z.string(), blocks: z.int(), rows: z.int(), file: z.string() })),
  objects: z.object({
    count: z.int(),
    bytes: z.int(),
    file: z.string(),
    /** Objects that Postgres refers to, but that were missing in the object store. */
    missing: z.array(z.string()),
  }),
  files: z.array(file),
})

export type BackupFile = z.output<typeof file>
export type Manifest = z.output<typeof manifest>
export type ClickHousePlace = Manifest['clickhouse']['place']

/** An entry of the list of objects. */
export type KeptObject = { key: string; bytes: number; sha256: string }

const folder = 'backups/'

export const toFileKey = (id: string, name: string) => `${folder}${id}/${name}`
export const toPoolKey = (objectKey: string) => `objects/${objectKey}`

/** Ids sort by time. */
export function createBackupId(at: Date): string {
  return `${at.toISOString().slice(0, 19).replaceAll(':', '-')}Z-${randomBytes(2).toString('hex')}`
}

/** The start time of a backup, in ms since the Unix epoch. */
export function startOf(id: string): number {
  return Date.parse(id.replace(/^(\d{4}-\d\d-\d\d)T(\d\d)-(\d\d)-(\d\d)Z.*$/, '$1T$2:$3:$4Z'))
}

/** The ids of all backups, complete or not, the oldest first. */
export async function listBackups(target: ObjectStore): Promise<{ id: string; isComplete: boolean }[]> {
  const found = new Map<string, boolean>()
  for await (const { key } of target.list(folder)) {
    const [, id = '', name] = /^backups\/([^/]+)\/(.+)$/.exec(key) ?? []
    if (id !== '') found.set(id, found.get(id) === true || name === 'manifest.json')
  }
  return [...found].map(([id, isComplete]) => ({ id, isComplete })).sort((a, b) => (a.id < b.id ? -1 : 1))
}

/**
 * Reads the manifest of a backup, or of the newest complete one when `id` is `latest`.
 *
 * @throws Error that lists the existing backups
 */
export async function readManifest(target: ObjectStore, id: string): Promise<Manifest> {
  const complete = (await listBackups(target)).filter((it) => it.isComplete).map((it) => it.id)
  const wanted = id === 'latest' ? complete.at(-1) : id
  if (wanted === undefined) throw new Error('There is no complete backup here. "svc backup" makes one.')
  if (!complete.includes(wanted)) {
    const there = complete.length === 0 ? 'there is none' : `there are ${complete.slice(-10).join(', ')}`
    throw new Error(`There is no complete backup "${wanted}" here: ${there}.`)
  }
  const name = toFileKey(wanted, 'manifest.json')
  try {
    return manifest.parse(JSON.parse((await buffer(await target.get(name))).toString()))
  } catch (error) {
    if (error instanceof Error && error.name === 'StoreAway') throw error
    throw new Error(`The manifest ${name} is damaged, or from a newer version of svc.`, {
      cause: error,
    })
  }
}
