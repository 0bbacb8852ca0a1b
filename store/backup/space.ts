import { mkdir, stat, statfs } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import type { ClickHouse } from '../clickhouse/connection.ts'
import { tablesNotBackedUp } from '../clickhouse/derived-tables.ts'
import type { ClickHouseRoute } from './clickhouse-copy.ts'
import { measureRows } from './clickhouse-rows.ts'

/** Space for the other, compressed files. */
const spareBytes = 64_000_000

/**
 * Throws when a target folder lacks the space for the data of ClickHouse: before hours of copying, and before the disk of the
 * embedded stores is full.
 */
export async function checkSpace(clickhouse: ClickHouse, route: ClickHouseRoute, targetUrl: string): Promise<void> {
  const folders = 'folder' in route ? [route.folder] : []
  if (('folder' in route || 'byRows' in route) && targetUrl.startsWith('file:')) folders.push(fileURLToPath(targetUrl))
  if (folders.length === 0) return
  const bytes = 'byRows' in route ? await measureRows(clickhouse) : await measureTables(clickhouse)
  const needed = new Map<number, { bytes: number; folder: string }>()
  for (const folder of folders) {
    await mkdir(folder, { recursive: true })
    const { dev } = await stat(folder)
    const before = needed.get(dev)
    needed.set(dev, { folder, bytes: (before?.bytes ?? spareBytes) + bytes })
  }
  for (const { folder, bytes } of needed.values()) {
    const { bavail, bsize } = await statfs(folder)
    if (bavail * bsize >= bytes) continue
    throw new Error(
      `Only ${toMegabytes(bavail * bsize)} MB are free on the disk of ${folder}, and the backup needs ` +
        `${toMegabytes(bytes)} MB there. Free some space, or choose another place with --to.`,
    )
  }
}

async function measureTables(clickhouse: ClickHouse): Promise<number> {
  const [row] = await clickhouse.rows<{ bytes: string }>(
    `SELECT sum(bytes_on_disk) AS bytes FROM system.parts
     WHERE active AND database = {database:String} AND table NOT IN ({notBackedUp:Array(String)})`,
    { database: clickhouse.database, notBackedUp: tablesNotBackedUp },
  )
  return Number(row?.bytes ?? 0)
}

const toMegabytes = (bytes: number) => Math.ceil(bytes / 1_000_000)
