import { execFile } from 'node:child_process'
import { open, rm, statfs } from 'node:fs/promises'
import path from 'node:path'
import { promisify } from 'node:util'
import type { Closers } from '../../../runtime/closers.ts'
import type { Command } from '../processes/process.ts'

const run = promisify(execFile)

/** A disk in memory, small enough to be filled. */
export type SmallDisk = {
  /** Wraps a command so that its process sees the disk. */
  around(command: Command): Command
  /** Writes a file until only `bytesLeft` are free. Repeat it: a merge may free space again. */
  fill(pid: number, bytesLeft?: number): Promise<void>
  free(pid: number): Promise<void>
}

/** No disk can be mounted here; the message says why. */
export class NoSmallDisk extends Error {}

/**
 * Mounts an empty disk on a folder: for everyone when we may, else for one process alone, in a namespace of its own.
 *
 * @throws NoSmallDisk
 */
export async function mountSmallDisk(folder: string, bytes: number, closers: Closers): Promise<SmallDisk> {
  const options = `size=${bytes},mode=0700`
  try {
    await run('mount', ['-t', 'tmpfs', '-o', options, 'tmpfs', folder])
  } catch (refusal) {
    return await mountInNamespace(folder, options, refusal)
  }
  closers.push(() => run('umount', ['--lazy', folder]))
  return { around: (command) => command, ...filler(() => folder) }
}

/** The disk goes away with the process: what it had stored is gone when it is started again. */
async function mountInNamespace(folder: string, options: string, refusal: unknown): Promise<SmallDisk> {
  const script = 'mount -t tmpfs -o "$1" tmpfs "$0" && shift && exec "$@"'
  const wrap = ['-Urm', 'sh', '-c', script, folder, options]
  await run('unshare', [...wrap, 'true']).catch((error: Error) => {
    const reasons = `mount: ${(refusal as Error).message.trim()}; unshare: ${error.message.trim()}`
    throw new NoSmallDisk(`A small disk cannot be mounted here, neither as root nor in a namespace (${reasons}).`)
  })
  return {
    around: (command) => ({ ...command, file: 'unshare', args: [...wrap, command.file, ...command.args] }),
    ...filler((pid) => `/proc/${pid}/root${folder}`),
  }
}

function filler(folderOf: (pid: number) => string) {
  const fileOf = (pid: number) => path.join(folderOf(pid), 'filler')
  return {
    async fill(pid: number, bytesLeft = 0) {
      const { bavail, bsize } = await statfs(folderOf(pid))
      const file = await open(fileOf(pid), 'a')
      try {
        if (bytesLeft > 0) return await file.appendFile(Buffer.alloc(Math.max(0, bavail * bsize - bytesLeft)))
        for (const bytes of [2 ** 20, 2 ** 12]) await writeUntilFull(() => file.appendFile(Buffer.alloc(bytes)))
      } finally {
        await file.close()
      }
    },
    async free(pid: number) {
      await rm(fileOf(pid), { force: true })
    },
  }
}

async function writeUntilFull(write: () => Promise<void>) {
  try {
    for (;;) await write()
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error
  }
}
