import { execFileSync } from 'node:child_process'
import os from 'node:os'

/**
 * Lets a process have only the CPU time that nothing else wants, as if it were on another machine: the policy SCHED_IDLE where
 * `chrt` (util-linux) is installed. Niceness alone is not enough: a nice process is not interrupted before its slice of some
 * milliseconds has ended.
 */
export function runWhenIdle(pid: number): void {
  os.setPriority(pid, os.constants.priority.PRIORITY_LOW)
  try {
    execFileSync('chrt', ['--all-tasks', '--idle', '--pid', '0', String(pid)], { stdio: 'ignore' })
  } catch {
    // Then it is nice only.
  }
}
