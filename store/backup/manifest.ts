import { randomBytes } from 'node:crypto'
import { buffer } from 'node:stream/consumers'
import { z } from 'zod'
import type { ObjectStore } from '../objects/object-store.ts'

/**
 * What a backup is made of. It lies below `backups/<id>/`; its manifest is written last, so a backup that has one is whole,
 * and what was killed half-way is none. Objects never change, so all backups of a place share one pool of them,
 * `objects/<key>`, and each says which of them are its own.
 */
const file = z.object({
  /** Below the folder of the backup. */
  name: z.string(),
  bytes: z.int(),
  sha256: z.string().optional(),
  /** Of what ClickHouse itself has put into S3: it was not read by us. */
  etag: z.string().optional(),
})

const clickhousePlace = z.discriminatedUnion('kind', [
  /** One of the files. */
  z.object({ kind: z.literal('file') }),
  /** A folder in the bucket of the backups, written by ClickHouse. */
  z.object({ kind: z.literal('s3') }),
  /** On a disk of ClickHouse's own. */
  z.object({ kind: z.literal('disk'), disk: z.string(), path: z.string() }),
])

const manifest = z.object({
  format: z.literal(1),
  id: z.string(),
  startedAt: z.iso.datetime(),
  finishedAt: z.iso.datetime(),
  /** Of svc. */
  version: z.string(),
  /** Tells the master key in use from others; null when there was none. */
  masterKey: z.string().nullable(),
  postgres: z.object({
    version: z.string(),
    migrations: z.array(z.string()),
    tables: z.array(z.object({ name: z.string(), columns: z.array(z.string()), rows: z.int(), file: z.string() })),
    sequences: z.record(z.string(), z.string()),
    /** The number of the last claim of events that can be in it. */
    lastClaim: z.string(),
  }),
  clickhouse: z.object({ version: z.string(), database: z.string(), place: clickhousePlace, rows: z.int() }),
  queue: z.array(z.object({ name: z.string(), blocks: z.int(), rows: z.int(), file: z.string() })),
  objects: z.object({
    count: z.int(),
    bytes: z.int(),
    file: z.string(),
    /** Referred to, and not in the store of objects when the backup was made. */
    missing: z.array(z.string()),
  }),
  files: z.array(file),
})

export type BackupFile = z.output<typeof file>
export type Manifest = z.output<typeof manifest>
export type ClickHousePlace = Manifest['clickhouse']['place']

/** An object of a backup, as its list has it. */
export type KeptObject = { key: string; bytes: number; sha256: string }

const folder = 'backups/'

export const toFileKey = (id: string, name: string) => `${folder}${id}/${name}`
export const toPoolKey = (objectKey: string) => `objects/${objectKey}`

/** Ids are in the order of time. */
export function createBackupId(at: Date): string {
  return `${at.toISOString().slice(0, 19).replaceAll(':', '-')}Z-${randomBytes(2).toString('hex')}`
}

/** When a backup of this id was begun, in ms since the Unix epoch. */
export function startOf(id: string): number {
  return Date.parse(id.replace(/^(\d{4}-\d\d-\d\d)T(\d\d)-(\d\d)-(\d\d)Z.*$/, '$1T$2:$3:$4Z'))
}

/** The ids of what was begun, the oldest first, and those that are whole. */
export async function listBackups(target: ObjectStore): Promise<{ id: string; isWhole: boolean }[]> {
  const found = new Map<string, boolean>()
  for await (const { key } of target.list(folder)) {
    const [, id = '', name] = /^backups\/([^/]+)\/(.+)$/.exec(key) ?? []
    if (id !== '') found.set(id, found.get(id) === true || name === 'manifest.json')
  }
  return [...found].map(([id, isWhole]) => ({ id, isWhole })).sort((a, b) => (a.id < b.id ? -1 : 1))
}

/**
 * Reads the manifest of a backup; that of the newest whole one when `id` is `latest`.
 *
 * @throws Error that says which there are
 */
export async function readManifest(target: ObjectStore, id: string): Promise<Manifest> {
  const whole = (await listBackups(target)).filter((it) => it.isWhole).map((it) => it.id)
  const wanted = id === 'latest' ? whole.at(-1) : id
  if (wanted === undefined) throw new Error('There is no whole backup here: "svc backup" makes one.')
  if (!whole.includes(wanted)) {
    const there = whole.length === 0 ? 'there is none' : `there are ${whole.slice(-10).join(', ')}`
    throw new Error(`There is no whole backup "${wanted}" here: ${there}.`)
  }
  const name = toFileKey(wanted, 'manifest.json')
  try {
    return manifest.parse(JSON.parse((await buffer(await target.get(name))).toString()))
  } catch (error) {
    if (error instanceof Error && error.name === 'StoreAway') throw error
    throw new Error(`The manifest ${name} is damaged, or of a newer version of svc: it cannot be used.`, {
      cause: error,
    })
  }
}
