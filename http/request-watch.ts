import type { IncomingHttpHeaders } from 'node:http'
import type { MetricObjectWithValues, MetricValue, Registry } from 'prom-client'
import type { Span, Tracing } from '../runtime/tracing.ts'
import type { Route } from './route.ts'

/**
 * Counts and times the requests of each route, and traces them when tracing is on. It counts in plain numbers and builds the
 * metrics when they are scraped: a labelled histogram would take a twentieth of the time of a small write.
 */
export type RequestWatch = {
  route(route: Pick<Route, 'method' | 'path' | 'tier'>): RouteWatch
  tracing: Tracing | undefined
}

type RouteWatch = {
  /** The span of a request to this route, if it is sampled. */
  begin(headers: IncomingHttpHeaders): Span | undefined
  /** @param startedAt by `performance.now()` */
  end(status: number, startedAt: number, span: Span | undefined): void
}

type Tally = { labels: Record<string, string>; statuses: Map<number, number>; buckets: number[]; seconds: number }

/** In seconds: a small write takes some milliseconds, a read of a million points some seconds. */
const bounds = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30]

export function createRequestWatch({
  metricsRegistry,
  tracing,
}: {
  metricsRegistry: Registry
  tracing?: Tracing
}): RequestWatch {
  const tallies = new Map<string, Tally>()
  register(metricsRegistry, {
    name: 'svc_http_requests_total',
    help: 'Requests answered, by tier, route and status',
    type: 'counter',
    values: () => [...tallies.values()].flatMap(countStatuses),
  })
  register(metricsRegistry, {
    name: 'svc_http_request_duration_seconds',
    help: 'From the head of a request to the end of its answer',
    type: 'histogram',
    values: () => [...tallies.values()].flatMap(spreadDurations),
  })

  return {
    tracing,
    route({ method, path, tier = 'none' }) {
      const name = `${method} ${path}`
      // The fast path and Node's server both register a route of the fast path.
      const tally = tallies.get(name) ?? createTally({ tier, method, route: path })
      tallies.set(name, tally)
      const attributes = { 'http.request.method': method, 'http.route': path }
      return {
        begin: (headers) => tracing?.start(name, { kind: 'server', from: toTraceparent(headers), attributes }),
        end(status, startedAt, span) {
          const seconds = (performance.now() - startedAt) / 1_000
          tally.statuses.set(status, (tally.statuses.get(status) ?? 0) + 1)
          const bucket = findBucket(seconds)
          tally.buckets[bucket] = (tally.buckets[bucket] as number) + 1
          tally.seconds += seconds
          span?.end({
            ...(status >= 500 && { error: String(status) }),
            attributes: { 'http.response.status_code': status },
          })
        },
      }
    },
  }
}

function createTally(labels: Tally['labels']): Tally {
  return { labels, statuses: new Map(), buckets: new Array(bounds.length + 1).fill(0), seconds: 0 }
}

function findBucket(seconds: number): number {
  let at = 0
  while (at < bounds.length && seconds > (bounds[at] as number)) at++
  return at
}

function toTraceparent(headers: IncomingHttpHeaders): string | undefined {
  const { traceparent } = headers
  return typeof traceparent === 'string' ? traceparent : undefined
}

function countStatuses({ labels, statuses }: Tally): MetricValue<string>[] {
  return [...statuses].map(([status, value]) => ({ labels: { ...labels, status: String(status) }, value }))
}

function spreadDurations({ labels, buckets, seconds }: Tally): (MetricValue<string> & { metricName: string })[] {
  const name = 'svc_http_request_duration_seconds'
  let count = 0
  const spread = buckets.map((inBucket, at) => {
    count += inBucket
    return { metricName: `${name}_bucket`, labels: { ...labels, le: String(bounds[at] ?? '+Inf') }, value: count }
  })
  // Or else each route without requests would print two dozen lines of zeros.
  if (count === 0) return []
  return [
    ...spread,
    { metricName: `${name}_sum`, labels, value: seconds },
    { metricName: `${name}_count`, labels, value: count },
  ]
}

type OwnMetric = { name: string; help: string; type: 'counter' | 'histogram'; values(): MetricValue<string>[] }

/** Registers a metric with the few members that the registry uses. */
function register(metricsRegistry: Registry, { name, help, type, values }: OwnMetric) {
  const metric = {
    name,
    get: async () =>
      ({ name, help, type, aggregator: 'sum', values: values() }) as unknown as MetricObjectWithValues<never>,
    reset() {},
  }
  metricsRegistry.registerMetric(metric as unknown as Parameters<Registry['registerMetric']>[0])
}
