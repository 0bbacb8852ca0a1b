import { hash } from 'node:crypto'
import type { NativeBlock } from '../../store/clickhouse/blocks/native-block.ts'
import type { chunkBlocks } from '../../store/clickhouse/points/chunks.ts'
import { isKeyed, type Origin } from '../identity.ts'
import type { Batch } from './batch.ts'
import { pushExtent } from './chunk-extent.ts'
import type { SeriesPoints } from './series-points.ts'

/** The fewest points of a series, on average, with which a request is stored as chunks: a chunk of fewer costs more than rows. */
const pointsLeast = 4

/**
 * Whether a batch is stored as chunks, in an experiment that takes them. A repetition must get the same answer, so it depends on
 * nothing but the valid points of the request: not on those that a limit drops. Where a client chooses the index of each point
 * itself, it may send them again in requests of other sizes, so that each has to be a row.
 */
export const isChunked = ({ series, hasOwnIndexes }: Batch): boolean =>
  !hasOwnIndexes && series.reduce((sum, it) => sum + it.values.length, 0) >= series.length * pointsLeast

export type ChunkBlock = NativeBlock<typeof chunkBlocks>

/** Adds a chunk for each series to an open block. */
export function pushChunks(block: ChunkBlock, origin: Origin, series: readonly SeriesPoints[]) {
  for (const it of series) if (it.kept > 0) pushChunk(block, origin, it)
}

function pushChunk({ columns, endRow }: ChunkBlock, origin: Origin, series: SeriesPoints) {
  const { steps, timestamps, epochs, places, presents, values } = series
  columns.experiment_id.push(origin.experimentId)
  columns.metric.push(series.metric)
  columns.context.push(series.context)
  columns.request_hi.push(origin.identity.high)
  columns.request_lo.push(origin.identity.low)
  columns.first_place.push(series.firstPlace)
  columns.received.push(origin.receivedMs)
  columns.present_all.push(series.present)
  columns.size.push(values.length)
  const arrays: [Items, ArrayLike<number | bigint> | undefined][] = [
    [columns.steps.items, steps],
    [columns.timestamps.items, timestamps],
    [columns.epochs.items, epochs],
    [columns.places.items, places],
    [columns.presents.items, presents],
    [columns.value_bits.items, values],
  ]
  const starts = arrays.map(([items, list]) => {
    const start = items.length
    if (list) items.pushAll(list as never, list.length)
    return start
  })
  // Of the whole series, also where a limit cuts it: a repetition may be cut elsewhere.
  columns.digest.push(
    isKeyed(origin.identity) ? toDigest(arrays.map(([items], at) => items.bytesFrom(starts[at] as number))) : 0,
  )
  if (series.kept < values.length) {
    arrays.forEach(([items, list], at) => {
      if (list) items.truncate((starts[at] as number) + series.kept)
    })
  }
  const [stepsStart, timestampsStart, , , presentsStart, valuesStart] = starts as [
    number,
    number,
    number,
    number,
    number,
    number,
  ]
  pushExtent(columns, {
    steps: columns.steps.items.wordsFrom(stepsStart),
    timestamps: columns.timestamps.items.wordsFrom(timestampsStart),
    presents: columns.presents.items.valuesFrom(presentsStart),
    values: columns.value_bits.items.valuesFrom(valuesStart),
    presentAll: series.present,
    receivedMs: origin.receivedMs,
    size: values.length,
  })
  columns.steps.end()
  columns.timestamps.end()
  columns.epochs.end()
  columns.places.end()
  columns.presents.end()
  columns.value_bits.end()
  endRow()
}

type Items = {
  readonly length: number
  pushAll(values: never, count: number): void
  truncate(length: number): void
  bytesFrom(start: number): Uint8Array
}

/** Lists of different lengths cannot have the same bytes in all: each has as many items as there are points, or none. */
const toDigest = (lists: Uint8Array[]): bigint =>
  hash(
    'sha256',
    Buffer.concat([Buffer.from(lists.map((it) => (it.length === 0 ? 0 : 1))), ...lists]),
    'buffer',
  ).readBigUInt64LE(0)
