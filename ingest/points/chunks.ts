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
  const { steps, timestamps, epochs, places, presents, values, kept } = series
  columns.experiment_id.push(origin.experimentId)
  columns.metric.push(series.metric)
  columns.context.push(series.context)
  columns.request_hi.push(origin.identity.high)
  columns.request_lo.push(origin.identity.low)
  columns.first_place.push(series.firstPlace)
  columns.received.push(origin.receivedMs)
  columns.present_all.push(series.present)
  columns.size.push(values.length)
  const lists = isKeyed(origin.identity) ? listsOf(columns) : undefined
  const starts = lists?.map((it) => it.length)
  // The digest is of the whole series, also where a limit cuts it: a repetition may be cut elsewhere.
  const pushed = lists ? values.length : kept
  if (steps) columns.steps.items.pushAll(steps, pushed)
  if (timestamps) columns.timestamps.items.pushAll(timestamps, pushed)
  if (epochs) columns.epochs.items.pushAll(epochs, pushed)
  if (places) columns.places.items.pushAll(places, pushed)
  if (presents) columns.presents.items.pushAll(presents, pushed)
  columns.value_bits.items.pushAll(values, pushed)
  columns.digest.push(lists ? toDigest(lists.map((it, at) => it.bytesFrom(starts?.[at] as number))) : 0)
  lists?.forEach((it, at) => {
    it.truncate(Math.min(it.length, (starts?.[at] as number) + kept))
  })
  pushExtent(columns, series, origin.receivedMs)
  columns.steps.end()
  columns.timestamps.end()
  columns.epochs.end()
  columns.places.end()
  columns.presents.end()
  columns.value_bits.end()
  endRow()
}

const listsOf = ({ steps, timestamps, epochs, places, presents, value_bits }: ChunkBlock['columns']) => [
  steps.items,
  timestamps.items,
  epochs.items,
  places.items,
  presents.items,
  value_bits.items,
]

/** Lists of different lengths cannot have the same bytes in all: each has as many items as there are points, or none. */
const toDigest = (lists: Uint8Array[]): bigint =>
  hash(
    'sha256',
    Buffer.concat([Buffer.from(lists.map((it) => (it.length === 0 ? 0 : 1))), ...lists]),
    'buffer',
  ).readBigUInt64LE(0)
