import { randomUUID } from 'node:crypto'
import { createReadStream, createWriteStream } from 'node:fs'
import { mkdir, readdir, rm } from 'node:fs/promises'
import path from 'node:path'
import { pipeline } from 'node:stream/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import type { ClickHouse } from '../clickhouse/connection.ts'
import { tablesNotBackedUp } from '../clickhouse/derived-tables.ts'
import type { ObjectStore } from '../objects/object-store.ts'
import { parseS3Url } from '../objects/s3-url.ts'
import { copyRows, restoreRows } from './clickhouse-rows.ts'
import type { Files } from './files.ts'
import { type ClickHousePlace, type Manifest, toFileKey } from './manifest.ts'

/**
 * ClickHouse copies itself (`BACKUP`) to a place that it can write to:
 *
 * - a folder that this command can read too (the embedded engine has one): an archive, which becomes a file of the backup;
 * - the bucket of the backups;
 * - a disk of its own, by name.
 *
 * Or its rows are read (`clickhouse-rows.ts`): that is how a cluster is copied. Derived tables are left out.
 */
export type ClickHouseRoute = { folder: string } | { disk: string } | { bucketUrl: string } | { byRows: true }

const archiveName = 'clickhouse.tar'
const s3Folder = 'clickhouse/'

type Copied = Pick<Manifest['clickhouse'], 'version' | 'database' | 'place' | 'rows'>

export async function copyClickHouse(
  clickhouse: ClickHouse,
  route: ClickHouseRoute,
  backup: { id: string; target: ObjectStore; files: Files },
  say: (text: string) => void,
): Promise<Copied> {
  const { database } = clickhouse
  const { id, target, files } = backup
  const tables = await clickhouse.rows<{ name: string; engine: string; rows: string | null; version: string }>(
    'SELECT name, engine, total_rows AS rows, version() AS version FROM system.tables WHERE database = {database:String}',
    { database },
  )
  if ('byRows' in route) {
    const copied = await copyRows(clickhouse, files, say)
    const place = { kind: 'rows' as const, tables: copied.tables }
    return { version: tables[0]?.version ?? '', database, place, rows: copied.rows }
  }
  const isLeftOut = (it: { name: string; engine: string }) =>
    it.engine === 'MaterializedView' || tablesNotBackedUp.includes(it.name)
  const leftOut = tables.filter(isLeftOut).map((it) => `${quote(database)}.${quote(it.name)}`)
  const except = leftOut.length > 0 ? ` EXCEPT TABLES ${leftOut.join(', ')}` : ''
  const run = (to: string) => runInside(clickhouse, `BACKUP DATABASE ${quote(database)}${except} TO ${to}`, say)
  const about = {
    version: tables[0]?.version ?? '',
    database,
    rows: tables.filter((it) => !isLeftOut(it)).reduce((sum, it) => sum + Number(it.rows ?? 0), 0),
  }

  if ('disk' in route) {
    const place = { kind: 'disk' as const, disk: route.disk, path: `svc/${id}` }
    await run(toDisk(place))
    return { ...about, place }
  }
  if ('bucketUrl' in route) {
    await run(toS3(route.bucketUrl, toFileKey(id, s3Folder)))
    const folder = toFileKey(id, '')
    for await (const { key, bytes, etag } of target.list(toFileKey(id, s3Folder))) {
      files.files.push({ name: key.slice(folder.length), bytes, etag })
    }
    return { ...about, place: { kind: 's3' } }
  }
  await mkdir(route.folder, { recursive: true, mode: 0o700 })
  // Only one backup runs at a time: other archives are leftovers.
  for (const name of await readdir(route.folder)) {
    if (isArchive(name)) await rm(path.join(route.folder, name), { force: true })
  }
  const archive = path.join(route.folder, toArchiveName(id))
  try {
    await run(`File(${text(archive)})`)
    await files.put(archiveName, createReadStream(archive))
  } finally {
    await rm(archive, { force: true })
    await rm(`${archive}.lock`, { force: true })
  }
  return { ...about, place: { kind: 'file' } }
}

const toArchiveName = (id: string) => `svc-backup-${id}.tar`
const isArchive = (name: string) => /^svc-backup-.*\.tar(\.lock)?$/.test(name)

/** Replaces the database by the tables of a backup. */
export async function restoreClickHouse(
  clickhouse: ClickHouse,
  route: ClickHouseRoute,
  backup: { id: string; target: ObjectStore; clickhouse: Manifest['clickhouse'] },
  say: (text: string) => void,
): Promise<void> {
  const { id, target } = backup
  const { place, database: from } = backup.clickhouse
  if (place.kind === 'rows') {
    return await restoreRows(clickhouse, place.tables, (file) => target.get(toFileKey(id, file)), say)
  }
  if (clickhouse.cluster !== undefined) {
    throw new Error(
      'This backup is a copy of a single ClickHouse server, and CLICKHOUSE_CLUSTER names a cluster. Restore it into a single ' +
        'server, and make a backup of that with SVC_BACKUP_CLICKHOUSE=rows, which restores into a cluster.',
    )
  }
  const run = async (source: string) => {
    await clickhouse.command(`DROP DATABASE IF EXISTS ${quote(clickhouse.database)} SYNC`)
    const as = from === clickhouse.database ? '' : ` AS ${quote(clickhouse.database)}`
    await runInside(clickhouse, `RESTORE DATABASE ${quote(from)}${as} FROM ${source}`, say)
  }
  if (place.kind === 'disk') return await run(toDisk(place))
  if ('bucketUrl' in route) {
    return await run(toS3(route.bucketUrl, toFileKey(id, place.kind === 's3' ? s3Folder : archiveName)))
  }
  if (place.kind === 's3' || !('folder' in route)) throw new Error(explainPlace(place))
  await mkdir(route.folder, { recursive: true, mode: 0o700 })
  const archive = path.join(route.folder, toArchiveName(id))
  try {
    await pipeline(await target.get(toFileKey(id, archiveName)), createWriteStream(archive))
    await run(`File(${text(archive)})`)
  } finally {
    await rm(archive, { force: true })
    await rm(`${archive}.lock`, { force: true })
  }
}

function explainPlace({ kind }: Pick<ClickHousePlace, 'kind'>): string {
  return kind === 's3'
    ? 'The part of ClickHouse is in the bucket, which this ClickHouse cannot read. Restore into a ClickHouse server ' +
        '(CLICKHOUSE_URL).'
    : 'The part of ClickHouse is a file of this backup, which ClickHouse must be able to read. Set SVC_BACKUP_CLICKHOUSE to ' +
        'a folder that it shares with this command (see docs/backups.md).'
}

const toDisk = ({ disk, path }: { disk: string; path: string }) => `Disk(${text(disk)}, ${text(path)})`

function toS3(bucketUrl: string, key: string): string {
  const { endpoint, bucket, prefix, credentials } = parseS3Url(bucketUrl, 'SVC_BACKUP_URL')
  const keys = credentials ? [credentials.accessKeyId, credentials.secretAccessKey] : []
  return `S3(${[`${endpoint}/${bucket}/${prefix}${key}`, ...keys].map(text).join(', ')})`
}

const pollMs = 300
const quote = (name: string) => `\`${name.replaceAll('\\', '\\\\').replaceAll('`', '\\`')}\``
const text = (value: string) => `'${value.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`

/** Starts a BACKUP or RESTORE in ClickHouse and waits for its end. It may take hours. */
async function runInside(clickhouse: ClickHouse, statement: string, say: (text: string) => void): Promise<void> {
  const id = randomUUID()
  try {
    await clickhouse.command(`${statement} SETTINGS id = ${text(id)} ASYNC`)
    for (;;) {
      const [row] = await clickhouse.rows<{ status: string; error: string; size: string; done: string }>(
        `SELECT status, error, formatReadableSize(total_size) AS size, formatReadableSize(bytes_read) AS done
         FROM system.backups WHERE id = {id:String}`,
        { id },
      )
      if (!row) throw new Error('ClickHouse was restarted meanwhile. Try again.')
      if (/^(BACKUP_CREATED|RESTORED)$/.test(row.status)) return
      if (/FAILED|CANCELLED/.test(row.status)) throw new Error(row.error || row.status)
      say(`${row.done} of ${row.size}`)
      await sleep(pollMs)
    }
  } catch (error) {
    throw explainError(error)
  }
}

function explainError(error: unknown): Error {
  const message = error instanceof Error ? error.message : String(error)
  const reason = message.replace(/, Stack trace[\s\S]*$/, '').replace(/^Code: \d+\. DB::Exception: /, '')
  const advice = /allowed_(disk|path)/.test(reason)
    ? ' Let ClickHouse write there: its configuration needs the setting "backups" (see docs/backups.md).'
    : /No space left|NOT_ENOUGH_SPACE|errno: 28/.test(reason)
      ? ' The disk that ClickHouse writes to is full. Free some space and try again.'
      : ''
  return new Error(`ClickHouse reports: ${reason.trim()}${/[.)]$/.test(reason.trim()) ? '' : '.'}${advice}`, {
    cause: error,
  })
}
