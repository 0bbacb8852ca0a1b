import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm, symlink } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import type { StoreUrls } from '../../../cli/settings.ts'
import type { Closers } from '../../../runtime/closers.ts'
import { startProcess } from '../../kit/processes/process.ts'
import { svcScript, toStoreSettings } from '../../kit/processes/svc.ts'

/** A version of svc that can be run: the commit, or undefined for the working tree, and its `cli/svc.ts`. */
export type Version = { name: string; commit?: string; script: string }

const root = fileURLToPath(new URL('../../..', import.meta.url))

export const workingTree: Version = { name: 'working tree', script: fileURLToPath(svcScript) }

/**
 * Unpacks a revision of this repository into a temporary folder. It runs with the packages that are installed here.
 *
 * @throws Error when git does not have the revision, as in a shallow clone
 */
export async function openRevision(revision: string, closers: Closers): Promise<Version> {
  const git = (...args: string[]) => promisify(execFile)('git', ['-C', root, ...args])
  const found = await git('rev-parse', '--verify', '--quiet', `${revision}^{commit}`).catch(() => undefined)
  const commit = found?.stdout.trim()
  if (!commit) {
    throw new Error(`git has no revision ${revision} here: a shallow clone gets it with "git fetch --unshallow".`)
  }
  const folder = await mkdtemp(path.join(tmpdir(), 'svc-revision-'))
  closers.push(() => rm(folder, { recursive: true, force: true, maxRetries: 10 }))
  const archive = spawn('git', ['-C', root, 'archive', commit], { stdio: ['ignore', 'pipe', 'inherit'] })
  const unpacked = spawn('tar', ['-x', '-C', folder], { stdio: [archive.stdout, 'ignore', 'inherit'] })
  const [code] = await once(unpacked, 'close')
  if (code !== 0) throw new Error(`The files of ${revision} could not be unpacked.`)
  await symlink(path.join(root, 'node_modules'), path.join(folder, 'node_modules'))
  return { name: revision, commit, script: path.join(folder, 'cli/svc.ts') }
}

/** Runs `svc migrate` of a version, with the key of the first admin. */
export async function migrateWith(
  { name, script }: Version,
  stores: StoreUrls,
  settings: Record<string, string>,
): Promise<void> {
  const environment = { ...toStoreSettings(stores), ...settings }
  const running = startProcess({ file: process.execPath, args: [script, 'migrate'], environment, folder: tmpdir() })
  const { code } = await running.ended
  if (code !== 0) throw new Error(`svc migrate of ${name} failed: ${running.output()}`)
}
