import { z } from 'zod'
import { experimentKey, flag, integerBetween, object, optional, text } from '../../http/body/fields.ts'
import { wrapJson } from '../../http/body/json-stream.ts'
import { type Route, route } from '../../http/route.ts'
import type { ClickHouse } from '../../store/clickhouse/connection.ts'
import { type Line, readLines } from '../../store/clickhouse/output/lines.ts'
import { streamOutput } from '../../store/clickhouse/output/reads.ts'
import type { Access } from '../access.ts'

const topic = 'Experiments: reading the stream'

const limitDefault = 1_000
const limitMax = 10_000
const searchCharactersMax = 1_000

export const searchField = text(searchCharactersMax, 1).describe('a part of the line, ignoring case and colours')
export const stderrField = optional(flag).describe('true: lines of stderr only; false: of stdout only')

export const lineAnswer = z.object({
  number: z.int().describe('from 0, in the whole output'),
  output: z.string(),
  stderr: z.boolean(),
  timestamp: z.int().describe('ms since the Unix epoch; when the line was accepted, if the client gave none'),
  runContext: z.string().nullable(),
})

export const toLineAnswer = ({ context, ...line }: Line) => ({ ...line, runContext: context || null })

type Deps = { clickhouse: ClickHouse; access: Access }

/** What an experiment printed: all of it, or some of its lines. */
export function createOutputRoutes({ clickhouse, access }: Deps): Route[] {
  return [
    route({
      method: 'GET',
      path: '/experiment/output',
      permission: 'reader',
      topic,
      summary: 'Reads the output as one text, lines ordered by offset.',
      query: object({ experimentKey }),
      answer: z.object({ output: z.string() }),
      shape: 'plain',
      async handle({ query, caller }) {
        const experiment = await access.experiment(caller, query.experimentKey)
        return wrapJson('{"output":"', await streamOutput(clickhouse, experiment.id), '"}')
      },
    }),

    route({
      method: 'GET',
      path: '/experiment/output/lines',
      permission: 'reader',
      topic,
      summary:
        'Reads some lines of the output, in ascending order: the line `from` and those after it, or with the direction ' +
        '`backward` those before it (without `from` the last ones). With `search` or `stderr` only lines that have it.',
      query: object({
        experimentKey,
        from: optional(integerBetween(0, Number.MAX_SAFE_INTEGER)).describe('the number of a line'),
        direction: optional(z.enum(['forward', 'backward'], 'must be forward or backward')),
        limit: optional(integerBetween(1, limitMax)).describe(`lines, fewer of long ones; default ${limitDefault}`),
        skip: optional(integerBetween(0, Number.MAX_SAFE_INTEGER)).describe('lines that are passed over first'),
        search: optional(searchField),
        stderr: stderrField,
      }),
      answer: z.object({
        lines: z.array(lineAnswer),
        total: z.int().describe('lines of the whole output'),
        found: z.int().describe('those of them that search and stderr leave'),
        nextFrom: z.int().nullable().describe('the `from` of the next page in this direction; null: there is no more'),
      }),
      shape: 'plain',
      async handle({ query, caller }) {
        const { from, direction, limit = limitDefault, skip = 0, search, stderr } = query
        const experiment = await access.experiment(caller, query.experimentKey)
        const isBackward = direction === 'backward'
        const range = { from, isBackward, skip, limit }
        const { lines, total, found, hasMore } = await readLines(clickhouse, experiment.id, { search, stderr }, range)
        const [first, last] = [lines[0], lines.at(-1)]
        const next = isBackward ? first?.number : last && last.number + 1
        return { lines: lines.map(toLineAnswer), total, found, nextFrom: hasMore ? (next ?? null) : null }
      },
    }),
  ]
}
