import { type DestinationStream, pino } from 'pino'
import { afterEach } from 'vitest'

const linesMax = 50
const lines: { atMs: number; line: string }[] = []

const kept: DestinationStream = {
  write(line) {
    lines.push({ atMs: Date.now(), line })
    if (lines.length > linesMax) lines.shift()
  },
}

/** The log of services in this process. Tests provoke many warnings: those of a test are told only when it fails. */
export const keptLog = pino({ level: 'warn' }, kept)

/** Setup of every test file. */
afterEach(({ task }) => {
  const { state, errors = [], startTime = 0 } = task.result ?? {}
  const its = lines.filter((it) => it.atMs >= startTime).map((it) => it.line)
  const [error] = errors
  // In the message they stand with the failure in every report; beside it they are somewhere in a long output.
  if (state === 'fail' && error && its.length > 0) {
    error.message += `\nThe services of this process warned meanwhile:\n${its.join('')}`
  }
})
