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

/** `found`: how many of all lines pass the filter. */
export type Lines = { lines: OutputLine[]; total: number; found: number }

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

export const readLines = (experimentKey: string, filter: LineFilter, range: Range, signal?: AbortSignal) =>
  read<Lines>('/experiment/output/lines', { experimentKey, ...filter, ...range }, { signal })

/** How many lines there are, and the last of them. */
export const lineCount = (experimentKey: string, filter: LineFilter, isRunning: boolean) =>
  queryOptions({
    queryKey: ['run', experimentKey, 'line count', filter],
    queryFn: async ({ signal }) => {
      const beganAt = performance.now()
      const { total, found } = await readLines(experimentKey, filter, { limit: 1, direction: 'backward' }, signal)
      return { total, found, tookMs: performance.now() - beganAt }
    },
    placeholderData: keepPreviousData,
    refetchInterval: ({ state }) =>
      isRunning ? Math.max(isLive() ? toldMs : liveMs, pausePerRead * (state.data?.tookMs ?? 0)) : false,
  })

/** The lines that pass the filter, from one place among them on. */
export const lineRange = (experimentKey: string, filter: LineFilter, skip: number, limit: number, isRunning: boolean) =>
  queryOptions({
    queryKey: lineRangeKey(experimentKey, filter, skip),
    queryFn: async ({ signal }) => (await readLines(experimentKey, filter, { skip, limit }, signal)).lines,
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
