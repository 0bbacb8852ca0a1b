import { z } from 'zod'
import { flag, integerBetween, object, optional, text } from '../../http/body/fields.ts'
import { HttpError } from '../../http/errors.ts'
import { type Route, route } from '../../http/route.ts'
import type { ClickHouse } from '../../store/clickhouse/connection.ts'
import { findOutput, readLines } from '../../store/clickhouse/output/lines.ts'
import type { Queries } from '../../store/postgres/database.ts'
import { listNewestRuns, type RunPlace } from '../../store/postgres/experiments/runs.ts'
import type { Access } from '../access.ts'
import { lineAnswer, searchField, stderrField, toLineAnswer } from '../experiments/output.ts'
import { projectQuery } from './projects.ts'

const runsDefault = 20
const runsMax = 100
const linesDefault = 5
const linesMax = 100
/** Runs are looked at in parts of so many. */
const runsAtOnce = 1_000
/** A page looks at so many, and says how many it was: a search without a hit ends too. */
const lookedAtMax = 10_000
/** A page ends with the run whose lines exceed this: a line may have a million. */
const charactersMax = 16 * 1024 ** 2

type Deps = { reads: Queries; clickhouse: ClickHouse; access: Access }

/** Finds runs of a project by what they printed. */
export function createOutputSearchRoutes({ reads, clickhouse, access }: Deps): Route[] {
  return [
    route({
      method: 'POST',
      path: '/project/output/search',
      charge: 'none',
      permission: 'reader',
      topic: 'Projects',
      summary: 'Finds the runs of a project that printed a text, the newest first, with the first lines that have it.',
      body: object({
        ...projectQuery.shape,
        search: searchField,
        stderr: stderrField,
        archived: optional(flag).describe('true: the archived ones only'),
        size: optional(integerBetween(1, runsMax)).describe(`runs, fewer with long lines; default ${runsDefault}`),
        linesPerRun: optional(integerBetween(1, linesMax)).describe(`fewer of long ones; default ${linesDefault}`),
        cursor: optional(text(200, 1)).describe('the nextCursor of the page before'),
      }),
      answer: z.object({
        runs: z.array(
          z.object({
            experimentKey: z.string(),
            name: z.string(),
            found: z.int().describe('lines of the run that have the text'),
            lines: z.array(lineAnswer).describe('the first of them'),
          }),
        ),
        total: z.int().describe('runs of the project'),
        searched: z.int().describe('runs that were looked at for this page'),
        nextCursor: z.string().optional().describe('there are runs that were not looked at yet'),
      }),
      shape: 'plain',
      async handle({ body, caller }) {
        const { search, stderr, archived = false, size = runsDefault, linesPerRun = linesDefault } = body
        const { projectId } = await access.project(caller, body)
        const filter = { search, stderr }
        const range = { isBackward: false, skip: 0, limit: linesPerRun }
        const found = []
        let after = body.cursor === undefined ? undefined : parseCursor(body.cursor)
        let searched = 0
        let characters = 0
        const isFull = () => found.length === size || characters >= charactersMax
        for (;;) {
          const limit = { after, limit: runsAtOnce }
          const { runs, total } = await listNewestRuns(reads, projectId, archived, limit)
          const ids = runs.map((it) => it.id)
          const mayHaveIt = ids.length === 0 ? new Set<bigint>() : await findOutput(clickhouse, ids, filter)
          for (const run of runs) {
            after = { startTimeMs: run.startTimeMs, id: run.id }
            searched++
            if (!mayHaveIt.has(run.id)) continue
            const it = await readLines(clickhouse, run.id, filter, range)
            if (it.found === 0) continue
            const lines = it.lines.map(toLineAnswer)
            found.push({ experimentKey: run.key, name: run.name, found: it.found, lines })
            characters += lines.reduce((sum, { output }) => sum + output.length, 0)
            if (isFull()) break
          }
          const isLast = runs.length < runsAtOnce && runs.at(-1)?.id === (after?.id ?? runs.at(-1)?.id)
          if (isLast) return { runs: found, total, searched }
          if (isFull() || searched >= lookedAtMax) {
            return { runs: found, total, searched, nextCursor: toCursor(after as RunPlace) }
          }
        }
      },
    }),
  ]
}

const toCursor = ({ startTimeMs, id }: RunPlace) => `${startTimeMs}-${id}`

/** @throws HttpError `badRequest` when it is not the cursor of an answer */
function parseCursor(cursor: string): RunPlace {
  const [, startTimeMs, id] = /^(-?\d{1,18})-(\d{1,19})$/.exec(cursor) ?? []
  if (startTimeMs !== undefined && id !== undefined) return { startTimeMs: BigInt(startTimeMs), id: BigInt(id) }
  throw new HttpError('badRequest', 'cursor: expected the nextCursor of an earlier answer')
}
