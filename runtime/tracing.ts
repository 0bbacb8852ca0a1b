/**
 * Where a part of the work stands in a trace. Parts are given a `Tracing` when there is a collector to send spans to, and
 * nothing otherwise: then tracing costs nothing. What is not sampled has no span either.
 */
export type Span = {
  /** Its place in the trace, in the spelling of the header `traceparent`: what goes on elsewhere names it. */
  readonly traceparent: string
  /** Says that this and another span, perhaps of another trace, had to do with each other. */
  link(traceparent: string): void
  /** Ends it; with an error, as failed. Of the error only its kind is told: messages may hold what people sent. */
  end(outcome?: { error?: unknown; attributes?: Attributes }): void
}

type Attributes = Record<string, string | number>

type SpanKind = 'server' | 'client' | 'producer' | 'consumer' | 'internal'

export type Tracing = {
  /**
   * Begins a span of the trace `from`, or of a trace of its own; undefined when it is not sampled. Others whose work is done
   * along are linked.
   */
  start(
    name: string,
    options: { kind: SpanKind; from?: string; links?: string[]; attributes?: Attributes },
  ): Span | undefined
  /** Runs work, and all that it begins, so that `current` answers the span; or nothing, when there is none. */
  within<T>(span: Span | undefined, work: () => T): T
  current(): Span | undefined
}
