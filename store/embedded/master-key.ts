import { randomBytes } from 'node:crypto'
import {
  closeSync,
  fsyncSync,
  linkSync,
  mkdirSync,
  openSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { join, resolve } from 'node:path'
import { readIfThere } from './folder.ts'

const keyBytes = 32

/**
 * The master key of a data folder: 32 bytes, as base64 in the file `master-key`. The first use makes the file, readable only
 * by its owner.
 *
 * @throws Error that names the file, when it is unusable or damaged
 */
export function ensureMasterKey(dataFolder: string): Buffer {
  const { folder, file } = toPlace(dataFolder)
  return parseKey(file, () => readIfThere(file) ?? makeKey(folder, file))
}

/**
 * The master key of a data folder, if it has one.
 *
 * @throws Error with advice, also when others than the owner may read the file
 */
export function findMasterKey(dataFolder: string): Buffer | undefined {
  const { file } = toPlace(dataFolder)
  const text = readIfThere(file)
  if (text === undefined) return undefined
  const key = parseKey(file, () => text)
  if ((statSync(file).mode & 0o077) !== 0) {
    throw new Error(`The master key ${file} can be read by other users: chmod 600 it.`)
  }
  return key
}

function toPlace(dataFolder: string) {
  const folder = resolve(dataFolder)
  return { folder, file: join(folder, 'master-key') }
}

function parseKey(file: string, read: () => string): Buffer {
  try {
    const key = Buffer.from(read(), 'base64')
    if (key.length === keyBytes) return key
  } catch (error) {
    throw new Error(`The master key ${file} cannot be used: ${(error as Error).message}`, { cause: error })
  }
  throw new Error(
    `The master key ${file} is damaged: it must be ${keyBytes} bytes in base64. Restore it from a backup.`,
  )
}

/** Writes a temporary file and links it, so that the key appears atomically; another process may be faster. */
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
