import { randomBytes } from 'node:crypto'
import { closeSync, fsyncSync, linkSync, mkdirSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'

const keyBytes = 32

/**
 * The master key of a data folder: 32 bytes, in base64 in the file `master-key`, which is made on first use and which only
 * its owner may read.
 *
 * @throws Error that names the file, when it cannot be used or holds something else
 */
export function ensureMasterKey(dataFolder: string): Buffer {
  const folder = resolve(dataFolder)
  const file = join(folder, 'master-key')
  try {
    const key = Buffer.from(readIfThere(file) ?? makeKey(folder, file), 'base64')
    if (key.length === keyBytes) return key
  } catch (error) {
    throw new Error(`The master key ${file} cannot be used: ${(error as Error).message}`, { cause: error })
  }
  throw new Error(
    `The master key ${file} is damaged: it must be ${keyBytes} bytes in base64. Restore it from a backup.`,
  )
}

/** Written aside and linked, so that it appears whole or not at all; another process may be quicker. */
function makeKey(folder: string, file: string): string {
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  const draft = `${file}.${randomBytes(4).toString('hex')}`
  const handle = openSync(draft, 'wx', 0o600)
  try {
    writeFileSync(handle, `${randomBytes(keyBytes).toString('base64')}\n`)
    fsyncSync(handle)
    linkSync(draft, file)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
  } finally {
    closeSync(handle)
    rmSync(draft, { force: true })
  }
  return readFileSync(file, 'utf8')
}

function readIfThere(file: string): string | undefined {
  try {
    return readFileSync(file, 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
}
