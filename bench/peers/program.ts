import { spawn } from 'node:child_process'
import { readdir, stat } from 'node:fs/promises'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Closers } from '../../runtime/closers.ts'

/** A peer is not installed: the bench says so, with what to do, and goes on without it. */
export class PeerAbsent extends Error {}

type ProgramOptions = {
  command: string
  args: string[]
  environment?: Record<string, string>
  workingFolder: string
  /** Answers with a status below 400 as soon as the program is ready. */
  readyUrl: string
  /** What to do when there is no such program. */
  install: string
  closers: Closers
}

export type Program = { pid: number; close(): Promise<void> }

const readyMsMax = 90_000
const pollMs = 100
const stopMsMax = 20_000
const outputCharactersMax = 8_000
/** The unit that stat(2) counts in, whatever the file system's own. */
const bytesPerBlock = 512

/**
 * Starts a program of somebody else's and waits until it answers.
 *
 * @throws PeerAbsent when there is no such program; Error with what it said when it does not start
 */
export async function startProgram(options: ProgramOptions): Promise<Program> {
  const { command, args, environment, workingFolder, readyUrl, install, closers } = options
  const { PATH, HOME, TMPDIR } = process.env
  const child = spawn(command, args, {
    cwd: workingFolder,
    env: { PATH, HOME, TMPDIR, ...environment },
    stdio: ['ignore', 'pipe', 'pipe'],
    // A group of its own: what it starts itself is ended with it.
    detached: true,
  })
  let output = ''
  const keep = (chunk: Buffer) => {
    output = (output + chunk).slice(-outputCharactersMax)
  }
  child.stdout.on('data', keep)
  child.stderr.on('data', keep)
  const ended = new Promise<void>((resolve) => child.once('close', () => resolve()))
  await new Promise<void>((resolve, reject) => {
    child.once('spawn', resolve)
    child.once('error', (error: NodeJS.ErrnoException) => {
      reject(error.code === 'ENOENT' ? new PeerAbsent(`${command} is absent: ${install}`) : error)
    })
  })
  const pid = child.pid as number
  const signal = (name: NodeJS.Signals) => {
    try {
      process.kill(-pid, name)
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
    }
  }
  // However this process ends, also when it is a fault that nobody caught.
  const endAtExit = () => signal('SIGKILL')
  process.once('exit', endAtExit)
  const close = async () => {
    signal('SIGTERM')
    const isOver = await Promise.race([ended.then(() => true), sleep(stopMsMax, false, { ref: false })])
    if (!isOver) signal('SIGKILL')
    await ended
    process.off('exit', endAtExit)
  }
  closers.push(close)
  const deadline = performance.now() + readyMsMax
  while (!(await answers(readyUrl))) {
    if (child.exitCode !== null || performance.now() > deadline) throw new Error(`${command} did not start:\n${output}`)
    await sleep(pollMs)
  }
  return { pid, close }
}

async function answers(url: string): Promise<boolean> {
  const answer = await fetch(url, { signal: AbortSignal.timeout(5_000) }).catch(() => undefined)
  await answer?.arrayBuffer()
  return answer !== undefined && answer.status < 400
}

/** What the files below a folder take on disk: their blocks, for some are made larger at once than what is in them. */
export async function readFolderBytes(folder: string): Promise<number> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true })
  const files = entries.filter((it) => it.isFile()).map((it) => path.join(it.parentPath, it.name))
  // A file may be merged away meanwhile.
  const sizes = await Promise.all(
    files.map((file) =>
      stat(file).then(
        (it) => it.blocks * bytesPerBlock,
        () => 0,
      ),
    ),
  )
  return sizes.reduce((sum, it) => sum + it, 0)
}
