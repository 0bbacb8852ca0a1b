/**
 * Installs the dependencies if they are missing or outdated, Node 24 (the package `node`) among them, and builds the web
 * interface if its sources changed. The npm scripts run it first, on whatever Node the machine has (18 or newer), so it uses only Node's own modules. If everything is in place
 * it prints nothing and takes a few milliseconds.
 */
'use strict'

const { spawnSync } = require('node:child_process')
const { createHash } = require('node:crypto')
const fs = require('node:fs')
const path = require('node:path')

const root = path.resolve(__dirname, '..')
const modules = path.join(root, 'node_modules')
const marker = path.join(modules, '.svc-installed')
const lock = path.join(modules, '.svc-installing')
const pages = path.join(root, 'web')
const pagesBuilt = path.join(pages, 'dist')
const pagesMarker = path.join(pagesBuilt, '.sources')
const isWindows = process.platform === 'win32'
const nodePackage = path.join(modules, 'node')
const nodeBinary = path.join(nodePackage, 'bin', isWindows ? 'node.exe' : 'node')
const nodeLink = path.join(modules, '.bin', isWindows ? 'node.cmd' : 'node')

/** A lock this old belongs to an install that hung, or its pid has been reused by another process. */
const lockAgeMsMax = 30 * 60_000
const bytesNeeded = 2_000_000_000

class InstallError extends Error {}

try {
  if (!isInstalled()) withLock(install)
  if (!isBuilt()) withLock(buildPages)
} catch (error) {
  // Messages of file system errors (no permission, disk full) are clear enough without a stack trace.
  if (!(error instanceof InstallError) && !error.code) throw error
  console.error(`\nInstalling failed: ${error.message}`)
  process.exit(1)
}

function isInstalled() {
  return read(marker) === fingerprint() && fs.existsSync(nodeBinary) && fs.existsSync(nodeLink)
}

function fingerprint() {
  const hash = createHash('sha256')
  for (const file of ['package.json', 'package-lock.json']) hash.update(`${read(path.join(root, file))}\n`)
  return hash.update(`${process.platform}-${process.arch}`).digest('hex')
}

function install() {
  // Another process may have installed everything while this one waited for the lock.
  if (isInstalled()) return
  fs.rmSync(marker, { force: true })
  // Standard output belongs to the command that is run after this one.
  console.error('Installing dependencies (about a minute the first time) ...')
  // Not `npm ci`: the lock file may lack other platforms' optional packages.
  const options = ['--no-save', '--no-audit', '--no-fund', '--loglevel=error', '--include=dev', '--include=optional']
  if (!runNpm(['install', ...options])) {
    throw new InstallError(`npm install failed; its messages are above. ${toAdvice()}`)
  }
  installNode()
  fs.writeFileSync(marker, fingerprint())
}

/** Of the sources of the web interface, and of the libraries that become part of it. */
function pagesFingerprint() {
  const hash = createHash('sha256').update(fingerprint())
  const listed = fs.readdirSync(pages, { recursive: true, withFileTypes: true })
  const files = listed.filter((it) => it.isFile()).map((it) => path.join(it.parentPath ?? it.path, it.name))
  for (const file of files.sort()) if (!file.startsWith(pagesBuilt)) hash.update(`${file}\n${read(file)}\n`)
  return hash.digest('hex')
}

/** A copy without the sources, such as an image, has been given what was built. */
function isBuilt() {
  return !fs.existsSync(path.join(pages, 'build.ts')) || read(pagesMarker) === pagesFingerprint()
}

function buildPages() {
  if (isBuilt()) return
  console.error('Building the web interface ...')
  const sources = pagesFingerprint()
  const { status, stderr } = spawnSync(nodeBinary, [path.join(pages, 'build.ts')], { encoding: 'utf8' })
  if (status !== 0) throw new InstallError(`the web interface could not be built:\n${stderr}`)
  fs.writeFileSync(pagesMarker, sources)
}

/** npm has already done this, unless install scripts are disabled. */
function installNode() {
  if (!nodeRuns()) {
    const result = spawnSync(process.execPath, ['installArchSpecificPackage.js'], {
      cwd: nodePackage,
      stdio: ['ignore', 'ignore', 'inherit'],
      env: environment(),
    })
    if (result.status !== 0 || !nodeRuns()) {
      throw new InstallError(`Node 24 could not be installed or does not run on this system. ${toAdvice()}`)
    }
  }
  if (fs.existsSync(nodeLink) || isWindows) return
  fs.mkdirSync(path.dirname(nodeLink), { recursive: true })
  fs.rmSync(nodeLink, { force: true })
  fs.symlinkSync(path.join('..', 'node', 'bin', 'node'), nodeLink)
}

function nodeRuns() {
  return fs.existsSync(nodeBinary) && spawnSync(nodeBinary, ['--version'], { stdio: 'ignore' }).status === 0
}

function runNpm(args) {
  const npm = process.env.npm_execpath
  // The Node that runs npm now: npm may be about to replace the one in node_modules.
  const node = process.env.npm_node_execpath || process.execPath
  const isNpm = npm && path.basename(npm).startsWith('npm')
  const options = { cwd: root, stdio: ['inherit', 2, 'inherit'], env: environment() }
  const result = isNpm
    ? spawnSync(node, [npm, ...args], options)
    : spawnSync('npm', args, { ...options, shell: isWindows })
  if (result.error) throw new InstallError(`npm cannot be run: ${result.error.message}`)
  return result.status === 0
}

/** Drops the variables that the outer npm set for its own run; keeps the registry, proxy and cache settings. */
function environment() {
  const dropped =
    /^npm_(lifecycle_|package_|command$|config_(local_prefix|global|workspaces?|include|omit|only|production|dev|optional|save.*|dry_run|package_lock.*)$)/i
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => !dropped.test(name)))
}

function toAdvice() {
  const { bavail, bsize } = fs.statfsSync(root)
  if (bavail * bsize < bytesNeeded) {
    return `Only ${Math.floor((bavail * bsize) / 1e6)} MB are free on this disk, about ${bytesNeeded / 1e6} are needed.`
  }
  return 'Is the network up, and the registry reachable (npm config get registry, npm ping)? Then run the command again.'
}

/** Concurrent installs would corrupt each other. */
function withLock(action) {
  fs.mkdirSync(modules, { recursive: true })
  for (let waited = false; !takeLock(); waited = true) {
    if (!waited) console.error('Waiting for another install in this folder to finish ...')
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 200)
  }
  try {
    action()
  } finally {
    fs.rmSync(lock, { force: true })
  }
}

function takeLock() {
  const draft = `${lock}.${process.pid}`
  fs.writeFileSync(draft, String(process.pid))
  try {
    // A hard link appears atomically, with its content.
    fs.linkSync(draft, lock)
    return true
  } catch (error) {
    if (error.code !== 'EEXIST') throw error
    if (isStale()) fs.rmSync(lock, { force: true })
    return false
  } finally {
    fs.rmSync(draft, { force: true })
  }
}

function isStale() {
  try {
    const pid = Number(fs.readFileSync(lock, 'utf8'))
    if (Date.now() - fs.statSync(lock).mtimeMs > lockAgeMsMax) return true
    process.kill(pid, 0)
    return false
  } catch (error) {
    // ESRCH: no such process. EPERM: another user's process. ENOENT: the lock was released meanwhile.
    return error.code === 'ESRCH'
  }
}

function read(file) {
  try {
    return fs.readFileSync(file, 'utf8')
  } catch {
    return ''
  }
}
