import { execFileSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import os from 'node:os'

/**
 * Lets a process have only the CPU time that nothing else wants, as if it were on another machine: the policy SCHED_IDLE where
 * `chrt` (util-linux) is installed. Niceness alone is not enough: a nice process is not interrupted before its slice of some
 * milliseconds has ended.
 *
 * Linux weighs processes of different sessions by their sessions (`sched_autogroup_enabled`), whatever their policy. So the process
 * must lead a session of its own (`detached`), which is made as light as it can be.
 */
export function runWhenIdle(pid: number): void {
  os.setPriority(pid, os.constants.priority.PRIORITY_LOW)
  try {
    execFileSync('chrt', ['--all-tasks', '--idle', '--pid', '0', String(pid)], { stdio: 'ignore' })
    writeFileSync(`/proc/${pid}/autogroup`, String(os.constants.priority.PRIORITY_LOW))
  } catch {
    // Then it is nice only.
  }
}
