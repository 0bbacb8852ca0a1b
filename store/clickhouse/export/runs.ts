import { Readable } from 'node:stream'
import type { ClickHouse, GivenRows } from '../connection.ts'
import { readSummaryValues, type SummaryValues } from '../points/summaries/values.ts'
import { quoteName } from './names.ts'

/**
 * Runs as one wide table. What Postgres knows of them is sent to ClickHouse, which writes the format. The columns are known
 * before the first row, because most formats begin with them.
 */
export type WideRun = {
  id: bigint
  project: string
  key: string
  name: string
  state: string
  userName: string
  archived: boolean
  startMs: number
  endMs: number
  tags: string[]
  parameters: Map<string, string>
}

/** The columns that differ between projects: names of parameters, and summary names of metrics. */
type WideColumns = { parameters: string[]; metrics: string[] }

const structure = `project String, key String, name String, state String, user String, archived Bool, start Int64, end Int64,
  tags Array(String), p Array(Nullable(String)), m Array(Nullable(Float64))`

const summaryParts = ['last', 'min', 'max'] as const

export function selectRuns({ parameters, metrics }: WideColumns): string {
  const columns = [
    ...parameters.map((name, at) => `p[${at + 1}] AS ${quoteName(`params.${name}`)}`),
    ...metrics.flatMap((name, at) =>
      summaryParts.map(
        (part, of) => `m[${at * summaryParts.length + of + 1}] AS ${quoteName(`metrics.${name}.${part}`)}`,
      ),
    ),
  ]
  const time = (of: string, as: string) => `fromUnixTimestamp64Milli(${of}, 'UTC') AS ${as}`
  return `SELECT project, key AS experiment_key, name AS experiment_name, state, user AS user_name, archived,
    ${time('start', 'start_time')}, ${time('end', 'end_time')}, tags${columns.map((it) => `, ${it}`).join('')} FROM given`
}

/** Runs as the rows of `given`, with their metrics, a page at a time. */
export function toGivenRuns(
  clickhouse: ClickHouse,
  { parameters, metrics }: WideColumns,
  pages: AsyncIterable<WideRun[]>,
): GivenRows {
  async function* toLines() {
    for await (const page of pages) {
      const summaries = await readSummaryValues(
        clickhouse,
        page.map((it) => it.id),
        'all',
      )
      yield page.map((run) => `${toLine(run, summaries.get(run.id))}\n`).join('')
    }
  }
  function toLine(run: WideRun, summary: Map<string, SummaryValues> | undefined): string {
    const { project, key, name, state, archived, tags } = run
    return JSON.stringify({
      ...{ project, key, name, state, archived, tags, user: run.userName, start: run.startMs, end: run.endMs },
      p: parameters.map((it) => run.parameters.get(it) ?? null),
      m: metrics.flatMap((it) => {
        const values = summary?.get(it)
        return summaryParts.map((part) => (values ? toExactJson(values[part]) : null))
      }),
    })
  }
  return { structure, lines: Readable.from(toLines(), { objectMode: false }) }
}

/** JSON has no form for these. */
const toExactJson = (value: number) =>
  Number.isFinite(value) && !Object.is(value, -0) ? value : Object.is(value, -0) ? '-0' : String(value)
