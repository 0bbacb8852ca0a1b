import { keepPreviousData, queryOptions } from '@tanstack/react-query'
import { post, read } from './http.ts'
import { isLive } from './live.ts'

/** Lines of what runs printed. */

export type OutputLine = {
  /** From 0, in the whole output. */
  number: number
  output: string
  stderr: boolean
  timestamp: number
}

/** Lines that have a text, or those of stderr; undefined: all. */
export type LineFilter = { search?: string; stderr?: true }

/** `found`: how many of all lines pass the filter; `nextFrom`: null when there are no more lines. */
type Lines = { lines: OutputLine[]; total: number; found: number; nextFrom: number | null }

export type FoundOutput = {
  runs: { experimentKey: string; name: string; found: number; lines: OutputLine[] }[]
  total: number
  searched: number
  nextCursor?: string
}

/** A running run is read again this often, a long one less often: the pause is so many times as long as the read. */
const liveMs = 1_000
const toldMs = 10_000
const pausePerRead = 10
const liveRangeMs = 10_000

type Range = { skip?: number; limit: number; direction?: 'backward' }

const readPage = (experimentKey: string, filter: LineFilter, range: Range, signal?: AbortSignal) =>
  read<Lines>('/experiment/output/lines', { experimentKey, ...filter, ...range }, { signal })

/** The lines that pass the filter, from one place among them on. Long ones come in several pages. */
export async function readLines(
  experimentKey: string,
  filter: LineFilter,
  { skip = 0, limit }: { skip?: number; limit: number },
  signal?: AbortSignal,
): Promise<OutputLine[]> {
  const lines: OutputLine[] = []
  for (;;) {
    const rest = { skip: skip + lines.length, limit: limit - lines.length }
    const page = await readPage(experimentKey, filter, rest, signal)
    lines.push(...page.lines)
    if (page.nextFrom === null || lines.length >= limit) return lines
  }
}

/** How many lines there are, and the last of them. */
export const lineCount = (experimentKey: string, filter: LineFilter, isRunning: boolean) =>
  queryOptions({
    queryKey: ['run', experimentKey, 'line count', filter],
    queryFn: async ({ signal }) => {
      const beganAt = performance.now()
      const { total, found } = await readPage(experimentKey, filter, { limit: 1, direction: 'backward' }, signal)
      return { total, found, tookMs: performance.now() - beganAt }
    },
    placeholderData: keepPreviousData,
    refetchInterval: ({ state }) =>
      isRunning ? Math.max(isLive() ? toldMs : liveMs, pausePerRead * (state.data?.tookMs ?? 0)) : false,
  })

/** See `readLines`. */
export const lineRange = (experimentKey: string, filter: LineFilter, skip: number, limit: number, isRunning: boolean) =>
  queryOptions({
    queryKey: lineRangeKey(experimentKey, filter, skip),
    queryFn: ({ signal }) => readLines(experimentKey, filter, { skip, limit }, signal),
    staleTime: isRunning ? liveRangeMs : Number.POSITIVE_INFINITY,
  })

export const lineRangeKey = (experimentKey: string, filter: LineFilter, skip: number) => [
  'run',
  experimentKey,
  'lines',
  filter,
  skip,
]

type Search = { workspaceName: string; projectName: string; search: string; stderr?: true; cursor?: string }

/** Runs of a project that printed a text, the newest first. */
export const searchOutput = (asked: Search, signal?: AbortSignal) =>
  post<FoundOutput>('/project/output/search', asked, { signal })
