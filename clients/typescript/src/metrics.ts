import type { ErrorLog } from './error-log.ts'
import { toJsonNumber } from './json.ts'
import type { Entry, Shipment } from './sender.ts'
import type { Answer } from './transport.ts'

const path = '/api/rest/v2/write/experiment/metrics/batch'

/** A point of a metric. */
export type MetricEntry = Entry & {
  kind: 'metric'
  value: number
  context: string
  step: number | bigint | undefined
  epoch: number | bigint | undefined
  timestampMs: number
}

type Deps = { experimentKey: string; errors: ErrorLog; newRequestKey(): string }

/** What a point takes in memory, roughly. */
export const metricBytes = ({ name, context }: { name: string; context: string }) =>
  (name.length + context.length) * 2 + 150

/** Points in one request, as columns, which are less work for the service than rows. */
export function toMetricShipment(entries: MetricEntry[], deps: Deps): Shipment<MetricEntry> {
  const { experimentKey, errors } = deps
  const series = toSeries(entries)
  const requestKey = deps.newRequestKey()
  const middle = Math.ceil(entries.length / 2)
  const body = () => `{"experimentKey":${JSON.stringify(experimentKey)},"series":[${series.map(toJson).join(',')}]}`

  return {
    entries,
    toRequest: () => ({ kind: 'json', path, body: body(), key: requestKey }),
    onAnswer(answer) {
      const { rejected, rejectedCount, throttled } = answer as Answer<typeof path>
      // They are counted through all series, one after the other.
      const inOrder = series.flat()
      for (const { index, msg } of rejected) {
        errors.add(`the service rejected a point: ${msg}`, [inOrder[index]?.name ?? `[${index}]`])
      }
      if (rejectedCount > rejected.length) {
        errors.add('the service rejected further points', [], rejectedCount - rejected.length)
      }
      if (throttled > 0)
        errors.add('a point was over a limit by count of the service, which did not keep it', [], throttled)
    },
    ...(entries.length > 1 && {
      split: () => [toMetricShipment(entries.slice(0, middle), deps), toMetricShipment(entries.slice(middle), deps)],
    }),
  }
}

/** Those of each metric and context, in their order. */
function toSeries(entries: MetricEntry[]): MetricEntry[][] {
  const series = new Map<string, MetricEntry[]>()
  for (const it of entries) {
    const id = `${it.name}\0${it.context}`
    const points = series.get(id)
    if (points) points.push(it)
    else series.set(id, [it])
  }
  return [...series.values()]
}

function toJson(points: MetricEntry[]): string {
  const [{ name, context }] = points as [MetricEntry]
  const integers = (pick: (point: MetricEntry) => number | bigint | undefined) =>
    `[${points.map((it) => pick(it)?.toString() ?? 'null').join(',')}]`
  const fields = [
    `"metricName":${JSON.stringify(name)}`,
    `"timestamps":${integers((it) => it.timestampMs)}`,
    `"values":[${points.map((it) => toJsonNumber(it.value)).join(',')}]`,
  ]
  if (context !== '') fields.push(`"context":${JSON.stringify(context)}`)
  if (points.some((it) => it.step !== undefined)) fields.push(`"steps":${integers((it) => it.step)}`)
  if (points.some((it) => it.epoch !== undefined)) fields.push(`"epochs":${integers((it) => it.epoch)}`)
  return `{${fields.join(',')}}`
}
