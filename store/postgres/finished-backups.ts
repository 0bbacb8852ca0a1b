import type { Queries } from './database.ts'

/** A backup that `svc backup` has finished. Whether it is still in its place is not known here. */
export type FinishedBackup = {
  id: string
  /** A folder, or an address without its secrets. */
  place: string
  startedAt: Date
  finishedAt: Date
  bytes: number
  /** Of svc. */
  version: string
}

export async function insertFinishedBackup(queries: Queries, it: FinishedBackup): Promise<void> {
  await queries.row(
    `INSERT INTO finished_backups (id, place, started_at, finished_at, bytes, version) VALUES ($1, $2, $3, $4, $5, $6)
     ON CONFLICT DO NOTHING`,
    [it.id, it.place, it.startedAt, it.finishedAt, it.bytes, it.version],
  )
}

/** The newest first. */
export async function listFinishedBackups(queries: Queries, limit: number): Promise<FinishedBackup[]> {
  return await queries.rows<FinishedBackup>(
    `SELECT id, place, started_at AS "startedAt", finished_at AS "finishedAt", bytes::float8 AS bytes, version
     FROM finished_backups ORDER BY started_at DESC, id DESC LIMIT $1`,
    [limit],
  )
}

/** Forgets those that were deleted from their place. */
export async function deleteFinishedBackups(queries: Queries, ids: string[]): Promise<void> {
  await queries.row('DELETE FROM finished_backups WHERE id = ANY($1)', [ids])
}

/** The address of a place of backups without its secrets: `s3://host/bucket/folder`, or the path of a folder. */
export function describePlace(url: string): string {
  const { protocol, host, pathname } = new URL(url)
  return protocol === 'file:' ? decodeURIComponent(pathname) : `${protocol}//${host}${pathname}`
}
