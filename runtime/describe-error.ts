/** An error in one line. When several addresses were tried, Node leaves the message empty and lists the reasons. */
export function describeError(error: unknown): string {
  if (error instanceof AggregateError && !error.message) return error.errors.map(describeError).join('; ')
  return error instanceof Error && error.message ? error.message : String(error)
}
