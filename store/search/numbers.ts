const decimal = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i
const notFinite = new Map([
  ['nan', Number.NaN],
  ...['inf', '+inf', 'infinity', '+infinity'].map((it) => [it, Number.POSITIVE_INFINITY] as const),
  ...['-inf', '-infinity'].map((it) => [it, Number.NEGATIVE_INFINITY] as const),
])

/** The number that a text is, or undefined; `number_of` of the database reads texts the same way. */
export function toNumber(value: string): number | undefined {
  const trimmed = value.trim()
  return decimal.test(trimmed) ? Number(trimmed) : notFinite.get(trimmed.toLowerCase())
}
