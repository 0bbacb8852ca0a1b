/**
 * A span of a trace. Parts get a `Tracing` only when there is a collector for spans, so tracing costs nothing otherwise. Work
 * that is not sampled has no span.
 */
export type Span = {
  /** Its id in the form of the header `traceparent`, for spans of other processes. */
  readonly traceparent: string
  /** Links another span, perhaps of another trace. */
  link(traceparent: string): void
  /** Ends it; with an error, as failed. Only the kind of the error is sent: its message may hold what users sent. */
  end(outcome?: { error?: unknown; attributes?: Attributes }): void
}

type Attributes = Record<string, string | number>

type SpanKind = 'server' | 'client' | 'producer' | 'consumer' | 'internal'

export type Tracing = {
  /**
   * Starts a span of the trace `from`, or of a new trace; undefined when it is not sampled. `links` name the other spans whose
   * work it does.
   */
  start(
    name: string,
    options: { kind: SpanKind; from?: string; links?: string[]; attributes?: Attributes },
  ): Span | undefined
  /** Runs the work with the span, or none, as the `current` one, also for everything that the work starts. */
  within<T>(span: Span | undefined, work: () => T): T
  current(): Span | undefined
}
