import { execFileSync } from 'node:child_process'
import { readFileSync, readlinkSync, realpathSync, writeFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'

/**
 * The start time of a live process, as an opaque text to compare: the pid alone may have been reused. Undefined if there is no
 * such process, or only a zombie.
 */
export function startOfProcess(pid: number): string | undefined {
  if (process.platform === 'linux') {
    try {
      const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
      // "pid (name) state ppid ...": the name may contain spaces and brackets, so count from the last bracket.
      const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
      const bootId = readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()
      return fields[0] === 'Z' || fields[0] === 'X' ? undefined : `${bootId} ${fields[19]}`
    } catch {
      return undefined
    }
  }
  return psField(pid, 'lstart') || undefined
}

/**
 * Ends a process that a killed parent left behind with the working directory `folder`: waits, then sends stronger signals.
 * Returns `false`, and does nothing, if the pid belongs to another process by now.
 */
export async function endLeftover(
  pid: number,
  folder: string,
  steps: { signal?: NodeJS.Signals; waitMs: number }[],
): Promise<boolean> {
  if (!worksIn(pid, folder)) return false
  for (const { signal, waitMs } of steps) {
    if (signal) signalProcess(pid, signal)
    for (const giveUpAt = Date.now() + waitMs; Date.now() < giveUpAt; await sleep(50)) {
      if (!worksIn(pid, folder)) return true
    }
  }
  throw new Error(`Process ${pid} still uses ${folder} and cannot be ended`)
}

/** Sends a signal; ignores that the process may be gone. */
export function signalProcess(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
  }
}

/**
 * Lets the other sessions go before that of a process when they want the same core. Linux shares cores between sessions first
 * (`sched_autogroup_enabled`): the niceness of a thread counts only beside those of its own session. Nothing happens elsewhere.
 */
export async function setSessionNiceness(pid: number, niceness: number): Promise<void> {
  for (let trial = 1; trial <= 10; trial++) {
    try {
      return writeFileSync(`/proc/${pid}/autogroup`, String(niceness))
    } catch (error) {
      // All else is another system, a kernel without it, or the process has ended.
      if ((error as NodeJS.ErrnoException).code !== 'EAGAIN') return
      // The kernel takes one change in 100 ms.
      await sleep(100 + Math.random() * 100)
    }
  }
}

function worksIn(pid: number, folder: string): boolean {
  if (process.platform !== 'linux') return psField(pid, 'command').includes(folder)
  try {
    return readlinkSync(`/proc/${pid}/cwd`) === realpathSync(folder)
  } catch {
    return false
  }
}

function psField(pid: number, field: string): string {
  try {
    return execFileSync('ps', ['-o', `${field}=`, '-p', String(pid)], { encoding: 'utf8' }).trim()
  } catch {
    return ''
  }
}
