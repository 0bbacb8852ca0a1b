import { useQueries, useQuery, useQueryClient } from '@tanstack/react-query'
import { useEffect } from 'react'
import { type LineFilter, lineCount, lineRange, lineRangeKey, type OutputLine } from '../../api/output.ts'
import { findStarts, type Style } from './terminal.ts'

/** Lines are read in parts of so many. */
const partSize = 500

export type ShownLine = OutputLine & { start?: Style | undefined }

type Asked = { experimentKey: string; filter: LineFilter; isLive: boolean }

export const useLineCount = ({ experimentKey, filter, isLive }: Asked) =>
  useQuery(lineCount(experimentKey, filter, isLive))

/**
 * The lines from one place to another among those that pass the filter. Only parts with lines on the screen are read, and the
 * part before them: it may leave a colour on.
 */
export function useLines({ experimentKey, filter, isLive }: Asked, found: number, first: number, last: number) {
  const client = useQueryClient()
  const firstPart = Math.max(Math.floor(first / partSize) - 1, 0)
  const lastPart = Math.floor(Math.min(last, found - 1) / partSize)
  const parts = Array.from({ length: Math.max(lastPart - firstPart + 1, 0) }, (_, at) => firstPart + at)
  const reads = useQueries({
    queries: parts.map((part) => lineRange(experimentKey, filter, part * partSize, partSize, isLive)),
  })
  const sizes = reads.map((it) => it.data?.length)
  // A part that was read before its last lines came.
  const behind = parts.filter((part, at) => {
    const size = sizes[at]
    return size !== undefined && size < Math.min(found - part * partSize, partSize)
  })
  const waiting = behind.join()
  // biome-ignore lint/correctness/useExhaustiveDependencies: once for every change of the count
  useEffect(() => {
    for (const part of behind) {
      void client.invalidateQueries({ queryKey: lineRangeKey(experimentKey, filter, part * partSize) })
    }
  }, [waiting, found])

  const isWhole = filter.search === undefined && filter.stderr === undefined
  const lines = new Map<number, ShownLine>()
  let style: Style | undefined
  reads.forEach(({ data }, at) => {
    const { starts, end } =
      isWhole && data
        ? findStarts(
            data.map((it) => it.output),
            style,
          )
        : { starts: undefined, end: undefined }
    style = end
    const from = (parts[at] as number) * partSize
    data?.forEach((line, place) => {
      lines.set(from + place, { ...line, start: starts?.get(place) })
    })
  })
  return { lines, error: reads.find((it) => it.error)?.error }
}
