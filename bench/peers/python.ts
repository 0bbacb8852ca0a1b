import { execFile } from 'node:child_process'
import { mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { PeerAbsent } from './program.ts'

/**
 * Peers from PyPI have one venv each in a folder that is kept for later runs. They are installed only on request, because
 * that takes time and the network.
 */
const run = promisify(execFile)
const installMsMax = 600_000

/** BENCH_PEERS, or `bench/.peers`. */
const peersFolder = process.env.BENCH_PEERS || fileURLToPath(new URL('../.peers/', import.meta.url))

export type PythonPackage = { name: string; version: string }

/** Installs a package into its own venv, unless it is installed. */
export async function installPackage({ name, version }: PythonPackage): Promise<void> {
  if (await isInstalled({ name, version })) return
  const folder = path.join(peersFolder, name)
  await rm(folder, { recursive: true, force: true })
  await mkdir(peersFolder, { recursive: true })
  await run('python3', ['-m', 'venv', folder], { timeout: installMsMax })
  const requirement = `${name}==${version}`
  const options = ['-m', 'pip', 'install', '--quiet', '--disable-pip-version-check', requirement]
  await run(path.join(folder, 'bin', 'python'), options, { timeout: installMsMax, maxBuffer: 16 * 1024 * 1024 })
  // Written last, so that an interrupted install is repeated.
  await writeFile(path.join(folder, 'installed.new'), version)
  await rename(path.join(folder, 'installed.new'), path.join(folder, 'installed'))
}

/**
 * Finds the programs of a package.
 *
 * @throws PeerAbsent if it is not installed
 */
export async function findPrograms(wanted: PythonPackage): Promise<string> {
  if (await isInstalled(wanted)) return path.join(peersFolder, wanted.name, 'bin')
  throw new PeerAbsent(
    `${wanted.name} is absent: install it with "npm run bench:compare -- --install" (PyPI, Python 3.10 or newer), or leave it out.`,
  )
}

async function isInstalled({ name, version }: PythonPackage): Promise<boolean> {
  return (await readFile(path.join(peersFolder, name, 'installed'), 'utf8').catch(() => '')) === version
}
