import { randomUUID } from 'node:crypto'
import { access, constants, mkdir, open, readdir, rename, rm, stat } from 'node:fs/promises'
import { hostname } from 'node:os'
import path from 'node:path'
import { pipeline } from 'node:stream/promises'
import { createMeasure, type ListedObject, type ObjectStore, storeAway } from './object-store.ts'

/** The folder for incomplete objects: a rename within one file system is atomic. */
const incomingFolder = '.incoming'
/** No running upload is that old: one that sends nothing for a minute is aborted. */
const abandonedAfterMs = 60 * 60_000

/**
 * Stores objects as files of a folder, which several processes may share. An object is written under another name, synced to
 * disk and renamed. The next start deletes incomplete files of killed processes.
 */
export async function openFolder(folder: string): Promise<ObjectStore> {
  const incoming = path.join(folder, incomingFolder)
  try {
    await mkdir(incoming, { recursive: true })
    await sweep(incoming)
  } catch (error) {
    throw new Error(`The folder for objects ${folder} cannot be used: ${(error as Error).message}`, { cause: error })
  }
  const toPath = (key: string) => path.join(folder, key)

  return {
    async put(key, content) {
      const draft = path.join(incoming, `${toOwner()}.${randomUUID()}`)
      const target = toPath(key)
      const { through, result } = createMeasure()
      try {
        const file = await open(draft, 'wx').catch(rethrowAway)
        try {
          await pipeline(content, through, async (chunks) => {
            for await (const chunk of chunks) await file.writeFile(chunk as Buffer).catch(rethrowAway)
          })
          await file.sync().catch(rethrowAway)
        } finally {
          await file.close()
        }
        await mkdir(path.dirname(target), { recursive: true }).catch(rethrowAway)
        await rename(draft, target).catch(rethrowAway)
        await syncFolder(path.dirname(target)).catch(rethrowAway)
        return result()
      } catch (error) {
        content.destroy()
        await rm(draft, { force: true }).catch(() => undefined)
        throw error
      }
    },

    async get(key, range) {
      const file = await open(toPath(key)).catch(rethrowUnlessAbsent)
      return file.createReadStream(range)
    },

    async delete(key) {
      await rm(toPath(key), { force: true }).catch(rethrowAway)
    },

    async *list(prefix) {
      // A prefix may end within a name, so start at its folder.
      const top = path.dirname(`${prefix}x`)
      yield* walk(folder, top === '.' ? '' : top, prefix)
    },

    async check() {
      await access(incoming, constants.R_OK | constants.W_OK | constants.X_OK)
    },

    close: async () => undefined,
  }
}

/** Skips files that are deleted meanwhile. */
async function* walk(folder: string, below: string, prefix: string): AsyncGenerator<ListedObject> {
  const entries = await readdir(path.join(folder, below), { withFileTypes: true }).catch(emptyIfAbsent)
  for (const entry of entries) {
    const key = below === '' ? entry.name : `${below}/${entry.name}`
    if (key === incomingFolder) continue
    if (entry.isDirectory()) {
      if (key.startsWith(prefix) || prefix.startsWith(`${key}/`)) yield* walk(folder, key, prefix)
    } else if (key.startsWith(prefix)) {
      const found = await stat(path.join(folder, key)).catch(emptyIfAbsent)
      if (!Array.isArray(found)) yield { key, bytes: found.size }
    }
  }
}

function emptyIfAbsent(error: NodeJS.ErrnoException): never[] {
  if (error.code === 'ENOENT') return []
  throw storeAway(error)
}

/** Deletes incomplete files of dead processes. */
async function sweep(incoming: string) {
  const now = Date.now()
  for (const name of await readdir(incoming)) {
    const file = path.join(incoming, name)
    const { mtimeMs } = (await stat(file).catch(() => undefined)) ?? {}
    if (mtimeMs === undefined) continue
    if (isOrphan(name) || now - mtimeMs > abandonedAfterMs) await rm(file, { force: true })
  }
}

/** The name of a draft contains its writer. For a writer on another machine only the age of the file shows whether it is dead. */
function toOwner(): string {
  return `${hostname()}.${process.pid}`
}

/** True when the writer was a process of this machine and is dead. A file with our own pid is of an earlier process. */
function isOrphan(name: string): boolean {
  const [, host, pid] = /^(.*)\.(\d+)\.[^.]+$/.exec(name) ?? []
  if (host !== hostname()) return false
  if (Number(pid) === process.pid) return true
  try {
    process.kill(Number(pid), 0)
    return false
  } catch (error) {
    // EPERM: it is alive, as another user.
    return (error as NodeJS.ErrnoException).code === 'ESRCH'
  }
}

/** Without this the new name may be lost in a power cut. */
async function syncFolder(folder: string) {
  const handle = await open(folder)
  try {
    await handle.sync()
  } finally {
    await handle.close()
  }
}

function rethrowAway(error: unknown): never {
  throw storeAway(error)
}

/** A missing object is not an outage of the store, so the error stays as it is. */
function rethrowUnlessAbsent(error: NodeJS.ErrnoException): never {
  throw error.code === 'ENOENT' ? error : storeAway(error)
}
