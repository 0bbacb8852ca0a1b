import { mkdir, stat, statfs } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import type { ClickHouse } from '../clickhouse/connection.ts'
import { tablesNotBackedUp } from '../clickhouse/derived-tables.ts'
import type { ClickHouseRoute } from './clickhouse-copy.ts'

/** Space for the other, compressed files. */
const spareBytes = 64_000_000

/**
 * Throws when a target folder lacks the space for the data of ClickHouse: before hours of copying, and before the disk of the
 * embedded stores is full.
 */
export async function checkSpace(clickhouse: ClickHouse, route: ClickHouseRoute, targetUrl: string): Promise<void> {
  if (!('folder' in route)) return
  const [row] = await clickhouse.rows<{ bytes: string }>(
    `SELECT sum(bytes_on_disk) AS bytes FROM system.parts
     WHERE active AND database = {database:String} AND table NOT IN ({notBackedUp:Array(String)})`,
    { database: clickhouse.database, notBackedUp: tablesNotBackedUp },
  )
  const bytes = Number(row?.bytes ?? 0)
  const folders = [route.folder]
  if (targetUrl.startsWith('file:')) folders.push(fileURLToPath(targetUrl))
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

const toMegabytes = (bytes: number) => Math.ceil(bytes / 1_000_000)
