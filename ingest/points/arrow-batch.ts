import {
  type ArrowColumn,
  type ArrowKind,
  type ArrowNumbers,
  type ArrowStream,
  readArrowStream,
} from '../../http/body/arrow.ts'
import { BareFloat } from '../../http/body/exact-json.ts'
import { HttpError } from '../../http/errors.ts'

/** For steps and times too: data frames have floats where some are absent. One with a fraction is wrong, as in JSON. */
const numbers: ArrowKind[] = ['integers', 'floats']
const lists: ArrowKind[] = ['list of integers', 'list of floats']

/**
 * A batch of points as an Apache Arrow stream: what its JSON would be, for the same checks. The key of the experiment is in the
 * metadata of the schema. A row is a series, with lists of numbers, or a point.
 */
const seriesColumns = {
  metricName: ['texts'],
  context: ['texts'],
  runContext: ['texts'],
  values: lists,
  steps: lists,
  epochs: lists,
  timestamps: lists,
  firstIndex: numbers,
} satisfies Columns

const pointColumns = {
  metricName: ['texts'],
  metricValue: numbers,
  context: ['texts'],
  runContext: ['texts'],
  step: numbers,
  epoch: numbers,
  timestamp: numbers,
} satisfies Columns

type Columns = Record<string, ArrowKind[]>

/** A series or a point takes more than its bytes. */
const rowsMax = 1_000_000

/**
 * @returns the body that a client of JSON would have sent, with lists that may be typed
 * @throws HttpError `badRequest`, `tooLarge`
 */
export function readArrowBatch(bytes: Uint8Array): unknown {
  const stream = readArrowStream(bytes)
  const { fields, metadata, batches } = stream
  const rows = batches.reduce((sum, it) => sum + it.length, 0)
  if (rows > rowsMax)
    throw new HttpError('tooLarge', `The request has ${rows} rows: send at most ${rowsMax} in one request.`)
  const experimentKey = metadata.get('experimentKey')
  if (experimentKey === undefined) {
    throw new HttpError('badRequest', 'experimentKey: is missing (put it into the metadata of the Arrow schema)')
  }
  if (fields.has('values')) return { experimentKey, series: readRows(stream, seriesColumns, toSeries) }
  if (fields.has('metricValue')) return { experimentKey, metrics: readRows(stream, pointColumns, toPoint) }
  throw new HttpError(
    'badRequest',
    'values: is missing (an Arrow stream has a column "values" with a list for each series, or "metricValue" with a number for each point)',
  )
}

type Read<Names extends string> = Partial<Record<Names, ArrowColumn>>

/** Other columns are ignored, as other fields of JSON are. */
function readRows<Names extends string, T>(
  { fields, batches }: ArrowStream,
  columns: Record<Names, readonly ArrowKind[]>,
  toItem: (read: Read<Names>, row: number) => T,
): T[] {
  const names = Object.keys(columns) as Names[]
  for (const name of names) {
    const found = fields.get(name)
    if (found === undefined || found === 'nothing' || columns[name].includes(found)) continue
    throw new HttpError('badRequest', `${name}: has a column of ${found}, but expected ${columns[name].join(' or ')}`)
  }
  return batches.flatMap((batch) => {
    const read: Read<Names> = {}
    for (const name of names) read[name] = batch.columns.get(name)
    return Array.from({ length: batch.length }, (_, row) => toItem(read, row))
  })
}

function toSeries(read: Read<keyof typeof seriesColumns>, row: number) {
  const values = read.values?.list(row)
  const steps = read.steps?.list(row)
  const epochs = read.epochs?.list(row)
  const timestamps = read.timestamps?.list(row)
  const areTyped = values instanceof Float64Array && isTyped(steps) && isTyped(epochs) && isTyped(timestamps)
  return {
    metricName: read.metricName?.at(row),
    context: read.context?.at(row),
    runContext: read.runContext?.at(row),
    firstIndex: read.firstIndex?.at(row),
    values: areTyped ? values : values && Array.from<Value, unknown>(values, toValue),
    steps,
    epochs,
    timestamps,
  }
}

const isTyped = (list: ArrowNumbers | null | undefined) => list == null || list instanceof BigInt64Array

type Value = ArrowNumbers[number]

/** What the reader of JSON makes of a NaN without quotes. */
const toValue = (value: Value) => (typeof value === 'number' && !Number.isFinite(value) ? new BareFloat(value) : value)

const toPoint = (read: Read<keyof typeof pointColumns>, row: number) => ({
  metricName: read.metricName?.at(row),
  metricValue: toValue(read.metricValue?.at(row) as Value),
  context: read.context?.at(row),
  runContext: read.runContext?.at(row),
  step: read.step?.at(row),
  epoch: read.epoch?.at(row),
  timestamp: read.timestamp?.at(row),
})
