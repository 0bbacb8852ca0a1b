import type { z } from 'zod'
import { experimentKey, flag, int64, list, object, optional, text, timestampMs } from '../../http/body/fields.ts'

const lineCharactersMax = 1_000_000
const linesMax = 100_000

export const outputFields = object({
  experimentKey,
  context: optional(text(1_000)),
  runContext: optional(text(1_000)),
  outputLines: list(
    object({
      output: text(lineCharactersMax),
      /** True means standard error. */
      stderr: optional(flag),
      localTimestamp: optional(timestampMs),
      offset: optional(int64),
    }),
    linesMax,
  ),
})

export type OutputBody = z.output<typeof outputFields>
export type OutputLine = OutputBody['outputLines'][number]
