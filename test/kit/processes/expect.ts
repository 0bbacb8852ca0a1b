import { expect } from 'vitest'
import { startOfProcess } from '../../../store/embedded/live-process.ts'

/** A failure as a person should see it: a sentence that says what to do, and nothing of the program's insides. */
export function expectPlainFailure(outcome: { code: number | null; stdout: string; stderr: string }, said: RegExp) {
  expect(outcome.stderr).toMatch(said)
  expect(outcome.stderr).toMatch(/^svc: /)
  // A line of the log may have a stack: on a busy machine, that Postgres did not answer in time.
  const told = (outcome.stdout + outcome.stderr).split('\n').filter((line) => !line.startsWith('{"level":'))
  expect(told.join('\n')).not.toMatch(/^\s+at .*[:)]|node:internal|\bError:/m)
  expect(outcome.code).toBe(1)
}

/** Fails while one of the processes is alive. */
export function expectEnded(engines: Record<string, number>) {
  for (const [name, pid] of Object.entries(engines)) expect(startOfProcess(pid), `${name} runs`).toBeUndefined()
}

/** What stands between two headings of the banner, as one would copy it. */
export function snippet(banner: string, heading: string): string {
  const start = banner.indexOf(heading)
  expect(start, heading).toBeGreaterThan(0)
  const text = banner.slice(banner.indexOf('\n\n', start) + 2)
  const end = text.indexOf('\nOr ')
  return end < 0 ? text : text.slice(0, end)
}
