import type { NativeBlock } from '../../store/clickhouse/blocks/native-block.ts'
import { type pointsTable, present } from '../../store/clickhouse/points/tables.ts'
import type { Origin } from '../identity.ts'
import type { Point } from './point.ts'

export type Integer = number | bigint

/** As JSON has them, or on the bytes of an Arrow stream. */
export type Integers = Integer[] | BigInt64Array

/**
 * The points of a series in a request, as columns. They are taken as the request has them, where it has columns: so a point costs
 * nothing until it is encoded.
 */
export type SeriesPoints = {
  metric: string
  context: string
  values: number[] | Float64Array
  /** Undefined where no point has one; 0 for a point without one. */
  steps: Integers | undefined
  epochs: Integers | undefined
  timestamps: Integers | undefined
  /** The fields that points have, as the stored bits: `present` for all, unless they differ. */
  present: number
  presents: number[] | undefined
  /** The indexes in the request, which are part of the identity of a point: counted on from `firstPlace`, unless listed. */
  firstPlace: number
  places: number[] | undefined
  /** How many of them to store: those that follow are over a limit. */
  kept: number
}

/** The optional fields that a point has, as the stored bits. */
export const toPresentBits = (step: unknown, epoch: unknown, timestamp: unknown): number =>
  (step === undefined ? 0 : present.step) |
  (epoch === undefined ? 0 : present.epoch) |
  (timestamp === undefined ? 0 : present.timestamp)

/** Collects points one by one. */
export function createSeriesPoints(metric: string, context: string) {
  const values: number[] = []
  const steps: Integer[] = []
  const epochs: Integer[] = []
  const timestamps: Integer[] = []
  const presents: number[] = []
  const places: number[] = []
  let all = 0xff
  let any = 0
  let isInOrder = true

  return {
    add({ value, step, epoch, timestamp }: Pick<Point, 'value' | 'step' | 'epoch' | 'timestamp'>, place: number) {
      const bits = toPresentBits(step, epoch, timestamp)
      all &= bits
      any |= bits
      isInOrder &&= places.length === 0 || place === (places[0] as number) + places.length
      values.push(value)
      steps.push(step ?? 0)
      epochs.push(epoch ?? 0)
      timestamps.push(timestamp ?? 0)
      presents.push(bits)
      places.push(place)
    },

    take(): SeriesPoints {
      return {
        metric,
        context,
        values,
        steps: any & present.step ? steps : undefined,
        epochs: any & present.epoch ? epochs : undefined,
        timestamps: any & present.timestamp ? timestamps : undefined,
        present: all,
        presents: all === any ? undefined : presents,
        firstPlace: places[0] ?? 0,
        places: isInOrder ? undefined : places,
        kept: values.length,
      }
    },
  }
}

export const countKept = (series: readonly SeriesPoints[]): number => series.reduce((sum, it) => sum + it.kept, 0)

/** Adds points to an open block of rows, column by column. */
export function pushRows(block: NativeBlock<typeof pointsTable>, origin: Origin, series: readonly SeriesPoints[]) {
  const { columns } = block
  const count = countKept(series)
  columns.experiment_id.fill(origin.experimentId, count)
  columns.request_hi.fill(origin.identity.high, count)
  columns.request_lo.fill(origin.identity.low, count)
  columns.received.fill(origin.receivedMs, count)
  for (const it of series) {
    columns.metric.fill(it.metric, it.kept)
    columns.context.fill(it.context, it.kept)
    if (it.places) columns.place.pushAll(it.places, it.kept)
    else for (let at = 0; at < it.kept; at++) columns.place.push(it.firstPlace + at)
    pushOrZero(columns.step, it.steps, it.kept)
    pushOrZero(columns.timestamp, it.timestamps, it.kept)
    pushOrZero(columns.epoch, it.epochs, it.kept)
    if (it.presents) columns.present.pushAll(it.presents, it.kept)
    else columns.present.fill(it.present, it.kept)
    columns.value.pushAll(it.values, it.kept)
  }
  block.endRows(count)
}

type IntegerColumn = { pushAll(values: Integers, count: number): void; fill(value: Integer, rows: number): void }

function pushOrZero(column: IntegerColumn, values: Integers | undefined, count: number) {
  if (values) column.pushAll(values, count)
  else column.fill(0, count)
}
