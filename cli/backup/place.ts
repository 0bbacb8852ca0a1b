import { existsSync, mkdirSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import type { Closers } from '../../runtime/closers.ts'
import type { Stores } from '../../store/backup/backup.ts'
import type { ClickHouseRoute } from '../../store/backup/clickhouse-copy.ts'
import { findPublishedStores } from '../../store/embedded/data-folder.ts'
import { openObjects } from '../../store/objects/open-objects.ts'
import { openLog } from '../log.ts'
import type { Settings } from '../settings.ts'
import { openStores } from '../stores.ts'
import type { Step } from '../terminal/steps.ts'

/** Opens the place of the backups: a path, or a URL as in SVC_BACKUP_URL. */
export async function openPlace(given: string | undefined, settings: Settings, closers: Closers) {
  const place = given ?? settings.backupUrl
  if (place === undefined) {
    throw new Error(
      'The place of the backups is missing: pass a folder or s3://access:secret@host:port/bucket with --to (svc restore: ' +
        '--from), or set SVC_BACKUP_URL.',
    )
  }
  const url = /^(s3|file):\/\//.test(place) ? place : pathToFileURL(path.resolve(place)).href
  // Only the owner may read it, as with a data folder.
  if (url.startsWith('file:')) mkdirSync(fileURLToPath(url), { recursive: true, mode: 0o700 })
  const target = await openObjects(url, 'SVC_BACKUP_URL')
  closers.push(target.close)
  return { url, target }
}

/** @property isByRows of a backup: that it has the rows of ClickHouse in files */
type Place = { url: string; isByRows?: boolean }

/**
 * Opens the stores to copy or to fill: those given by address, else those of the service that runs on the data folder, else
 * embedded ones on that folder, for the duration of the command.
 */
export async function reachStores(
  settings: Settings,
  { place, mayRun, progress, closers }: { place: Place; mayRun: boolean; progress: Step; closers: Closers },
): Promise<{ stores: Stores; route: ClickHouseRoute }> {
  const { clickhouseCluster, clickhouseInsertQuorum, clickhouseUrl, postgresUrl, redisUrl, objectsUrl, queuePrefix } =
    settings
  if (clickhouseUrl && postgresUrl) {
    const clickhouse = { clickhouseUrl, clickhouseCluster, clickhouseInsertQuorum }
    const stores = { ...clickhouse, postgresUrl, redisUrl, objectsUrl, queuePrefix }
    return { stores, route: chooseRoute(settings, undefined, place) }
  }
  const folder = path.resolve(settings.dataFolder)
  const running = mayRun ? findPublishedStores(folder) : undefined
  if (running) {
    const { backupsFolder, ...stores } = running
    return {
      stores: {
        ...stores,
        ...(clickhouseUrl && { clickhouseCluster, clickhouseInsertQuorum }),
        redisUrl: stores.redisUrl,
        queuePrefix,
      },
      route: chooseRoute(settings, backupsFolder, place),
    }
  }
  if (mayRun && !existsSync(path.join(folder, 'postgres')) && !existsSync(path.join(folder, 'clickhouse'))) {
    throw new Error(
      `There is nothing to copy: CLICKHOUSE_URL and POSTGRES_URL are not set, and the data folder ${folder} has no stores. ` +
        'Choose another with SVC_DATA_DIR.',
    )
  }
  const { backupsFolder, ...stores } = await openStores(settings, progress, closers, openLog('error', 'backup'))
  return { stores: { ...stores, queuePrefix }, route: chooseRoute(settings, backupsFolder, place) }
}

function chooseRoute(
  { backupClickhouse, clickhouseCluster }: Settings,
  embeddedFolder: string | undefined,
  { url, isByRows }: Place,
): ClickHouseRoute {
  if (clickhouseCluster !== undefined && backupClickhouse !== undefined && backupClickhouse !== 'rows') {
    throw new Error('SVC_BACKUP_CLICKHOUSE: must be rows, or not set, for a cluster (CLICKHOUSE_CLUSTER).')
  }
  if (isByRows || clickhouseCluster !== undefined || backupClickhouse === 'rows') return { byRows: true }
  if (backupClickhouse?.startsWith('disk:')) return { disk: backupClickhouse.slice('disk:'.length) }
  if (backupClickhouse) return { folder: fileURLToPath(backupClickhouse) }
  if (embeddedFolder) return { folder: embeddedFolder }
  if (url.startsWith('s3:')) return { bucketUrl: url }
  throw new Error(
    'ClickHouse writes its part of a backup itself, and cannot write to this folder. Keep backups in S3 (s3://...), or set ' +
      'SVC_BACKUP_CLICKHOUSE to a place that it can write to: file:///folder, which this command must be able to read, or ' +
      'disk:NAME. Or set it to rows: then the command reads them. docs/backups.md has the configuration of ClickHouse.',
  )
}
