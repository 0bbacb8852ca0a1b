import { randomUUID } from 'node:crypto'
import { chmodSync, linkSync, mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { statfs } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { readIfThere } from './folder.ts'
import { startOfProcess } from './live-process.ts'

type Holder = { pid: number; start: string; token: string; since: string }

/** The addresses of the stores of a running service. */
export type PublishedStores = {
  clickhouseUrl: string
  postgresUrl: string
  redisUrl?: string
  objectsUrl: string
  /** The folder for backups of the embedded ClickHouse. */
  backupsFolder?: string
}

export type DataFolderLock = {
  /** Publishes the addresses to other commands of the folder's owner, while the lock is held. */
  publish(stores: PublishedStores): void
  release(): void
}

/**
 * Makes the folder and locks it for this process until `release`. Throws when a live process holds the lock; takes over the
 * lock of a dead one. Processes in different containers do not see each other's pids: only the stores' own file locks keep
 * them apart.
 */
export function lockDataFolder(path: string): DataFolderLock {
  const folder = resolve(path)
  const file = join(folder, 'lock')
  const token = randomUUID()
  const draft = `${file}.${token}`
  const mine: Holder = {
    pid: process.pid,
    start: startOfProcess(process.pid) ?? '',
    token,
    since: new Date().toISOString(),
  }
  try {
    mkdirSync(folder, { recursive: true, mode: 0o700 })
    chmodSync(folder, 0o700)
    writeFileSync(draft, JSON.stringify(mine), { mode: 0o600, flag: 'wx' })
  } catch (error) {
    throw new Error(
      `The data folder ${folder} cannot be used: ${(error as Error).message}. Choose another with SVC_DATA_DIR.`,
      { cause: error },
    )
  }
  try {
    // A link appears atomically, with its content.
    while (!tryLink(draft, file)) {
      const text = readIfThere(file)
      const holder = toHolder(text)
      if (holder && startOfProcess(holder.pid) === holder.start) {
        throw new Error(
          `The data folder ${folder} is in use by process ${holder.pid} (since ${holder.since}). ` +
            'Stop that process first, or choose another folder with SVC_DATA_DIR.',
        )
      }
      if (text !== undefined) removeStale(file, text, `${draft}.stale`)
    }
  } finally {
    rmSync(draft, { force: true })
  }
  return {
    publish(stores) {
      writeFileSync(draft, JSON.stringify({ token, stores }), { mode: 0o600, flag: 'wx' })
      renameSync(draft, toPublished(folder))
    },
    release() {
      if (toHolder(readIfThere(file))?.token !== token) return
      rmSync(toPublished(folder), { force: true })
      rmSync(file, { force: true })
    },
  }
}

/** The addresses published by the live process that holds the folder; undefined if there is none. */
export function findPublishedStores(path: string): PublishedStores | undefined {
  const folder = resolve(path)
  const holder = toHolder(readIfThere(join(folder, 'lock')))
  if (!holder || startOfProcess(holder.pid) !== holder.start) return undefined
  const text = readIfThere(toPublished(folder))
  const published = text === undefined ? undefined : (JSON.parse(text) as { token: string; stores: PublishedStores })
  return published?.token === holder.token ? published.stores : undefined
}

const toPublished = (folder: string) => join(folder, 'stores')

/** Throws when the file system of `folder` has less than `bytesMin` bytes free (500 MB by default). */
export async function checkFreeSpace(folder: string, bytesMin = 500_000_000): Promise<void> {
  const { bavail, bsize } = await statfs(folder)
  const bytesFree = bavail * bsize
  if (bytesFree >= bytesMin) return
  throw new Error(
    `Only ${toMegabytes(bytesFree)} MB are free for the data folder ${folder}, at least ${toMegabytes(bytesMin)} MB ` +
      'are needed. Free some space, or choose another folder with SVC_DATA_DIR.',
  )
}

/** Renames the lock file before it removes it: another process may have replaced it since we read it. */
function removeStale(file: string, text: string, aside: string): void {
  try {
    renameSync(file, aside)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return
    throw error
  }
  if (readIfThere(aside) !== text) tryLink(aside, file)
  rmSync(aside, { force: true })
}

function tryLink(from: string, to: string): boolean {
  try {
    linkSync(from, to)
    return true
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false
    throw error
  }
}

/** Undefined for a truncated file, for example after a power cut. */
function toHolder(text: string | undefined): Holder | undefined {
  try {
    const holder = JSON.parse(text ?? '') as Holder
    return Number.isInteger(holder.pid) && holder.pid > 0 && holder.start ? holder : undefined
  } catch {
    return undefined
  }
}

function toMegabytes(bytes: number): number {
  return Math.floor(bytes / 1_000_000)
}
