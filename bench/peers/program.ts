import { readdir, stat } from 'node:fs/promises'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Closers } from '../../runtime/closers.ts'
import { signalProcess } from '../../store/embedded/live-process.ts'
import { checkAnswers, ProgramMissing, startProcess, waitUntilReady } from '../../test/kit/processes/process.ts'

/** A peer is not installed. The bench prints how to install it and continues without it. */
export class PeerAbsent extends Error {}

type ProgramOptions = {
  command: string
  args: string[]
  environment?: Record<string, string>
  workingFolder: string
  /** Answers with a status below 400 once the program is ready. */
  readyUrl: string
  /** How to install the program. */
  install: string
  closers: Closers
}

export type Program = { pid: number; close(): Promise<void> }

const readyMsMax = 90_000
const stopMsMax = 20_000
/** The unit of `blocks` in stat(2), whatever the file system's own. */
const bytesPerBlock = 512

/**
 * Starts a peer's program and waits until it answers.
 *
 * @throws PeerAbsent when there is no such program; Error with its output when it does not start
 */
export async function startProgram(options: ProgramOptions): Promise<Program> {
  const { command, args, environment = {}, workingFolder, readyUrl, install, closers } = options
  const running = start()
  // Signals the process group, so that its children end too.
  const signal = (name: NodeJS.Signals) => signalProcess(-running.pid, name)
  // Also ends it when an uncaught error ends this process.
  const endAtExit = () => signal('SIGKILL')
  process.once('exit', endAtExit)
  const close = async () => {
    signal('SIGTERM')
    const isOver = await Promise.race([running.ended.then(() => true), sleep(stopMsMax, false, { ref: false })])
    if (!isOver) signal('SIGKILL')
    await running.ended
    process.off('exit', endAtExit)
  }
  closers.push(close)
  await waitUntilReady(command, running, () => checkAnswers(readyUrl), readyMsMax)
  return { pid: running.pid, close }

  function start() {
    try {
      return startProcess({ file: command, args, environment, folder: workingFolder }, { isDetached: true })
    } catch (error) {
      if (error instanceof ProgramMissing) throw new PeerAbsent(`${command} is absent: ${install}`)
      throw error
    }
  }
}

/** Disk space of the files below a folder: blocks, because some servers allocate files larger than their content. */
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
