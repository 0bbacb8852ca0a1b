import { afterEach } from 'vitest'
import { keptLines } from './kept-log.ts'

/** Setup of every test file. */
afterEach(({ task }) => {
  const { state, errors = [], startTime = 0 } = task.result ?? {}
  const its = keptLines.filter((it) => it.atMs >= startTime).map((it) => it.line)
  const [error] = errors
  // In the message they stand with the failure in every report; beside it they are somewhere in a long output.
  if (state === 'fail' && error && its.length > 0) {
    error.message += `\nThe services of this process warned meanwhile:\n${its.join('')}`
  }
})
