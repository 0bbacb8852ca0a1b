import { AsyncLocalStorage } from 'node:async_hooks'
import { hostname } from 'node:os'
import {
  type Span as OtelSpan,
  ROOT_CONTEXT,
  type SpanContext,
  SpanKind,
  SpanStatusCode,
  TraceFlags,
  trace,
} from '@opentelemetry/api'
import { parseTraceParent, setGlobalErrorHandler } from '@opentelemetry/core'
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-proto'
import { defaultResource, detectResources, envDetector, resourceFromAttributes } from '@opentelemetry/resources'
import {
  AlwaysOffSampler,
  AlwaysOnSampler,
  BatchSpanProcessor,
  ParentBasedSampler,
  type Sampler,
  TraceIdRatioBasedSampler,
  TracerProvider,
} from '@opentelemetry/sdk-trace'
import type { Logger } from 'pino'
import { waitAtMost } from '../runtime/timeout.ts'
import type { Span, Tracing } from '../runtime/tracing.ts'
import type { Settings } from './settings.ts'
import { version } from './version.ts'

/**
 * Sends traces to an OpenTelemetry collector. Imported only when traces are on: the libraries cost memory and time. An
 * unreachable collector costs only spans: they wait in a short queue, further ones are dropped, and the log says so at most
 * once a minute.
 */
type Given = { settings: NonNullable<Settings['tracing']>; roles: Iterable<string>; log: Logger }

const kinds = {
  server: SpanKind.SERVER,
  client: SpanKind.CLIENT,
  producer: SpanKind.PRODUCER,
  consumer: SpanKind.CONSUMER,
  internal: SpanKind.INTERNAL,
}

const reportEveryMs = 60_000
/** The time to send the remaining spans when the process stops. */
const closeMsMax = 3_000

export function openTracing({ settings, roles, log }: Given): Tracing & { close(): Promise<void> } {
  reportErrors(log)
  const provider = new TracerProvider({
    resource: defaultResource()
      .merge(
        resourceFromAttributes({
          'service.name': toServiceName([...roles]),
          'service.version': version,
          'service.instance.id': `${hostname()}-${process.pid}`,
        }),
      )
      // The environment overrides the attributes above.
      .merge(detectResources({ detectors: [envDetector] })),
    sampler: toSampler(settings),
    spanProcessors: [
      new BatchSpanProcessor({
        exporter: new OTLPTraceExporter(),
        maxQueueSize: settings.queueSpansMax,
        scheduledDelayMillis: settings.everyMs,
      }),
    ],
  })
  const tracer = provider.getTracer('svc', version)
  const active = new AsyncLocalStorage<Span | undefined>()

  return {
    start(name, { kind, from, links, attributes }) {
      const parent = from === undefined ? undefined : parseTraceParent(from)
      const context = parent ? trace.setSpanContext(ROOT_CONTEXT, { ...parent, isRemote: true }) : ROOT_CONTEXT
      const span = tracer.startSpan(
        name,
        { kind: kinds[kind], attributes, links: links?.flatMap((it) => toLink(it) ?? []) },
        context,
      )
      return span.isRecording() ? toSpan(span) : undefined
    },
    within: (span, work) => active.run(span, work),
    current: () => active.getStore(),
    async close() {
      await waitAtMost(
        provider.shutdown().catch(() => undefined),
        closeMsMax,
      )
    },
  }
}

function toSpan(span: OtelSpan): Span {
  return {
    traceparent: toTraceparent(span.spanContext()),
    link(traceparent) {
      const link = toLink(traceparent)
      if (link) span.addLink(link)
    },
    end({ error, attributes } = {}) {
      if (attributes) span.setAttributes(attributes)
      if (error !== undefined) {
        span.setAttribute('error.type', toKind(error))
        span.setStatus({ code: SpanStatusCode.ERROR })
      }
      span.end()
    },
  }
}

function toTraceparent({ traceId, spanId, traceFlags }: SpanContext): string {
  return `00-${traceId}-${spanId}-${traceFlags & TraceFlags.SAMPLED ? '01' : '00'}`
}

function toLink(traceparent: string) {
  const context = parseTraceParent(traceparent)
  return context ? { context } : undefined
}

/** Never the message: it may hold user data. */
function toKind(error: unknown): string {
  if (typeof error === 'string') return error
  if (!(error instanceof Error)) return 'unknown'
  return 'code' in error && error.code !== undefined ? String(error.code) : error.name
}

function toSampler({ sampler, ratio }: Given['settings']): Sampler {
  const root = sampler.endsWith('always_off')
    ? new AlwaysOffSampler()
    : sampler.endsWith('traceidratio')
      ? new TraceIdRatioBasedSampler(ratio)
      : new AlwaysOnSampler()
  return sampler.startsWith('parentbased_') ? new ParentBasedSampler({ root }) : root
}

function reportErrors(log: Logger) {
  let reportedAt = Number.NEGATIVE_INFINITY
  setGlobalErrorHandler((error) => {
    const now = performance.now()
    if (now - reportedAt < reportEveryMs) return
    reportedAt = now
    // The error itself may hold the headers of the request to the collector.
    const reason = error instanceof Error ? error.message : typeof error === 'string' ? error : error.name
    log.warn({ reason }, 'traces could not be sent to the collector and were dropped')
  })
}

/** Named after the command: `svc worker` has the role webhook-worker too, `svc up` has all roles. */
function toServiceName(roles: string[]): string {
  const [first, ...more] = roles.filter((it) => it !== 'webhook-worker' || roles.length === 1)
  return more.length === 0 ? `svc-${first}` : 'svc'
}
