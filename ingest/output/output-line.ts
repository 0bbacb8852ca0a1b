import type { z } from 'zod'
import { experimentKey, flag, int64, list, object, optional, text, timestampMs } from '../../http/body/fields.ts'
import { present } from '../../store/clickhouse/points/tables.ts'

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

export type OutputLine = z.output<typeof outputFields>['outputLines'][number]

/** Which of the optional parts a line has, as the bits that are stored with it. */
export function toLineBits({ localTimestamp, offset }: OutputLine): number {
  return (localTimestamp === undefined ? 0 : present.timestamp) | (offset === undefined ? 0 : present.offset)
}
