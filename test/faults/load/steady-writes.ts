import { dataSet, metricContexts, metricNames, timestampAt, valueAt } from '../../kit/curves.ts'
import { type PointRow, pointText } from '../verify/rows.ts'
import type { WriteRequest } from './connection.ts'

/**
 * Endless training curves: each client logs its own experiment, all metrics of one step after another. A request is a pure
 * function of client and number, so a count is enough of a ledger for millions of points.
 */
export function toRequest(client: number, request: number, batch: number): Pick<WriteRequest, 'path' | 'body'> {
  const fields = Array.from({ length: batch }, (_, place) => toFields(pointAt(client, request * batch + place)))
  return batch === 1
    ? { path: 'metric', body: JSON.stringify(fields[0]) }
    : { path: 'metrics/batch', body: JSON.stringify({ metrics: fields }) }
}

/** The first `points` rows of a client, as text. */
export function rowsOf(client: number, points: number): string[] {
  return Array.from({ length: points }, (_, index) => pointText(pointAt(client, index)))
}

function pointAt(client: number, index: number): PointRow {
  const metric = index % dataSet.metrics
  const step = Math.floor(index / dataSet.metrics)
  return {
    metric: metricNames[metric] as string,
    context: metricContexts[metric] as string,
    step,
    epoch: null,
    timestamp: timestampAt({ experiment: client, step }),
    value: valueAt({ experiment: client, metric, step }),
  }
}

function toFields({ metric, context, step, timestamp, value }: PointRow) {
  return { metricName: metric, metricValue: value, context, step, timestamp }
}
