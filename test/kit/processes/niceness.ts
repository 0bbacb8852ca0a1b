import { existsSync, readFileSync } from 'node:fs'

/** The niceness of the session of a process; undefined where the kernel has none. */
export function nicenessOf(pid: number | 'self'): number | undefined {
  const file = `/proc/${pid}/autogroup`
  return existsSync(file) ? Number(/ nice (.*)/.exec(readFileSync(file, 'utf8'))?.[1]) : undefined
}
