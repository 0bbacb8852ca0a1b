import { z } from 'zod'
import { integerBetween, object, optional, text } from '../../http/body/fields.ts'
import { unavailable } from '../../http/errors.ts'
import { type Route, route } from '../../http/route.ts'
import type { ClickHouse } from '../../store/clickhouse/connection.ts'
import { formatClause } from '../../store/clickhouse/export/formats.ts'
import { countParts, type Exported, selectExported } from '../../store/clickhouse/export/rows.ts'
import type { Queries } from '../../store/postgres/database.ts'
import type { Access } from '../access.ts'
import type { LivePosition } from '../live/position.ts'
import { describeFile, format } from './file.ts'
import { parsePartId, toPartId } from './part.ts'
import { selectWideRuns } from './runs.ts'
import { findScope, scopeFields } from './scope.ts'
import type { ExportSlots } from './slots.ts'

const topic = 'Export'

/** Rows of a part: some 10 to 50 MB. */
const rowsOfPartDefault = 2_000_000

const exported = {
  metrics: 'Exports every stored point of every metric: one row each.',
  'system-metrics': 'Exports every stored point of resource usage: one row each.',
  output: 'Exports the output, as its writers sent it: one row for each line, or piece of one.',
} satisfies Record<Exported, string>

const whats = Object.keys(exported) as Exported[]

const manifestAnswer = z.object({
  until: z.int().describe('what was accepted until then is in the parts: ms since the Unix epoch'),
  experiments: z.int(),
  rows: z.int(),
  parts: z.array(
    z.object({
      part: z.string().describe('what to send as `part`'),
      rows: z.int().describe('the exact number of rows'),
    }),
  ),
})

type Deps = {
  reads: Queries
  clickhouse: ClickHouse
  access: Access
  /** The position until which everything accepted is stored; undefined while the queue is behind. */
  findPosition(): Promise<LivePosition | undefined>
  slots: ExportSlots
}

/** Exports of what experiments logged. ClickHouse writes each format itself, and its bytes pass through. */
export function createExportRoutes({ reads, clickhouse, access, findPosition, slots }: Deps): Route[] {
  const routes = whats.map((what) =>
    route({
      method: 'GET',
      path: `/export/${what}`,
      permission: 'caller',
      topic,
      summary: `${exported[what]} Ordered by experiment, in the order in which these were made. A user has one export at a time.`,
      query: object({
        ...scopeFields,
        format,
        part: optional(text(20_000, 1)).describe('a part of /export/manifest, which comes whole or as an error'),
      }),
      answer: z.string(),
      shape: 'bytes',
      async handle({ query: { format = 'parquet', part, ...named }, caller, reply }) {
        const { runs, name } = await findScope({ reads, clickhouse, access }, caller, named)
        const signal = await slots.take(caller.userId, reply.raw)
        const { untilMs, between } =
          part === undefined ? { untilMs: Date.now(), between: undefined } : parsePartId(part)
        const scope = { what, runs, untilMs, between }
        const { stream, rows } = await clickhouse.streamExport(
          `${selectExported(clickhouse, scope)} ${formatClause(format)}`,
          { isWhole: part !== undefined, signal },
        )
        describeFile(reply, `${name}-${what}`, format)
        if (rows !== undefined) reply.header('x-export-rows', rows)
        return stream
      },
    }),
  )
  return [
    ...routes,
    route({
      method: 'GET',
      path: '/export/runs',
      permission: 'caller',
      topic,
      summary:
        'Exports experiments as a wide table: one row each, with a column for each parameter, and for the last value, the ' +
        'minimum and the maximum of each metric. It comes whole or as an error.',
      query: object({ ...scopeFields, format }),
      answer: z.string(),
      shape: 'bytes',
      async handle({ query: { format = 'parquet', ...named }, caller, reply }) {
        const { runs, name } = await findScope({ reads, clickhouse, access }, caller, named)
        const signal = await slots.take(caller.userId, reply.raw)
        const { query, given } = await selectWideRuns({ reads, clickhouse }, runs)
        const { stream, rows } = await clickhouse.streamExport(`${query} ${formatClause(format)}`, {
          isWhole: true,
          signal,
          given,
        })
        describeFile(reply, `${name}-runs`, format)
        reply.header('x-export-rows', rows)
        return stream
      },
    }),
    route({
      method: 'GET',
      path: '/export/manifest',
      permission: 'caller',
      topic,
      summary:
        'Divides an export into parts, with the exact number of rows of each, so that a broken one can be resumed. What ' +
        'arrives later is in none of them. A series, or the output of an experiment, is never divided.',
      query: object({
        ...scopeFields,
        what: z.enum(whats, `expected one of ${whats.join(', ')}`),
        rowsOfPart: optional(integerBetween(1, 100_000_000)).describe(
          `about how many rows a part has; default ${rowsOfPartDefault}`,
        ),
      }),
      answer: manifestAnswer,
      shape: 'plain',
      async handle({ query: { what, rowsOfPart = rowsOfPartDefault, ...named }, caller, reply }) {
        const { runs } = await findScope({ reads, clickhouse, access }, caller, named)
        const signal = await slots.take(caller.userId, reply.raw)
        const position = await findPosition()
        if (!position) throw unavailable('The service is catching up with what was accepted.', undefined, 5)
        const { receivedMs } = what === 'output' ? position.lines : position.points
        // Everything before the position is stored, so later reads of a part find the same rows.
        const untilMs = Number(receivedMs) - 1
        const parts = await countParts(clickhouse, { what, runs, untilMs }, rowsOfPart, signal)
        return {
          until: untilMs,
          experiments: runs.length,
          rows: parts.reduce((sum, it) => sum + it.rows, 0),
          parts: parts.map(({ rows, between }) => ({ part: toPartId({ untilMs, between }), rows })),
        }
      },
    }),
  ]
}
