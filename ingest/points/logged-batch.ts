import { experimentKey, list, object, toFieldError } from '../../http/body/fields.ts'
import { HttpError } from '../../http/errors.ts'
import type { RequestId } from '../identity.ts'
import { type Point, pointFields, readPoint } from './point.ts'
import type { PointRows } from './rows.ts'

/**
 * A batch of a client that logs live. It names no request: what it could not send, it sends again, in other batches. So a
 * point is its own identity: the whole of it is in the sorting key of the table, and `place` tells equal points of one
 * request apart.
 */
export const loggedBatchFields = object({ experimentKey, values: list(pointFields, Number.POSITIVE_INFINITY) })

export const ownIdentity: RequestId = { high: 2n ** 64n - 1n, low: 0 }

const envelopeFields = object({ experimentKey, values: list(object({}).loose(), 100_000) })

/** Resource usage, perhaps of one of many nodes: `sys.cpu.percent.01`, `node1.sys.ram.used`. */
const systemName = /(^|\.)sys\.(compute|cpu|disk|gpu|load|network|ram)\b/

export type LoggedPoints = { experimentKey: string; rows: PointRows }

type LoggedBatch = {
  metrics: LoggedPoints
  system: LoggedPoints
  /** The error of the first wrong point, and how many there are. */
  wrong: { first: string | undefined; count: number }
}

/**
 * Checks every point, and parts resource usage from metrics. Wrong points are left out.
 *
 * @throws HttpError when the batch itself is wrong
 */
export function readLoggedBatch(body: unknown): LoggedBatch {
  const checked = envelopeFields.safeParse(body)
  if (!checked.success) throw toFieldError(checked.error, body)
  const { experimentKey, values } = checked.data
  const metrics: LoggedPoints = { experimentKey, rows: { points: [], rowIndexes: [] } }
  const system: LoggedPoints = { experimentKey, rows: { points: [], rowIndexes: [] } }
  const wrong: LoggedBatch['wrong'] = { first: undefined, count: 0 }
  const seen = new Map<string, number>()
  values.forEach((raw, index) => {
    const point = readPoint(toStorable(raw), () => `values[${index}]`)
    if (typeof point === 'string') {
      wrong.first ??= point
      wrong.count++
      return
    }
    const text = toText(point)
    const before = seen.get(text) ?? 0
    seen.set(text, before + 1)
    const { rows } = systemName.test(point.metric) ? system : metrics
    rows.points.push(point)
    rows.rowIndexes.push(before)
  })
  return { metrics, system, wrong }
}

/** Python's booleans arrive as their names. */
const booleans = new Map<unknown, number>([
  ['True', 1],
  ['False', 0],
])

/** Makes numbers of booleans, and integers of steps and epochs: a training may log in the middle of an epoch. */
function toStorable(raw: Record<string, unknown>) {
  const { metricValue, step, epoch } = raw
  const number = booleans.get(metricValue)
  if (number === undefined && !isFraction(step) && !isFraction(epoch)) return raw
  return { ...raw, metricValue: number ?? metricValue, step: toWhole(step), epoch: toWhole(epoch) }
}

const isFraction = (value: unknown): value is number => typeof value === 'number' && !Number.isInteger(value)
const toWhole = (value: unknown) => (isFraction(value) ? Math.floor(value) : value)

function toText({ metric, context, step, epoch, timestamp, value }: Point): string {
  return JSON.stringify([metric, context, `${step} ${epoch} ${timestamp} ${Object.is(value, -0) ? '-0' : value}`])
}

/** The client shows this error, and sends none of the batch again. */
export function toWrongPoints({ first, count }: LoggedBatch['wrong']): HttpError {
  return new HttpError('pointsWrong', `${first} (${count} wrong in this batch; all others were stored)`)
}
