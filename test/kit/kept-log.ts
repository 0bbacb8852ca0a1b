import { type DestinationStream, pino } from 'pino'

const linesMax = 50
/** Files share a process, and each loads the setup anew: apart from it, services and setup have the same lines. */
export const keptLines: { atMs: number; line: string }[] = []

const kept: DestinationStream = {
  write(line) {
    keptLines.push({ atMs: Date.now(), line })
    if (keptLines.length > linesMax) keptLines.shift()
  },
}

/** The log of services in this process. Tests provoke many warnings: those of a test are told only when it fails. */
export const keptLog = pino({ level: 'warn' }, kept)
