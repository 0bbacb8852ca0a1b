/** A number as JSON that keeps every bit: integers beyond 2^53 and -0 as digits, what is not finite as a string. */
export function toJsonNumber(value: number | bigint): string {
  if (typeof value === 'bigint') return value.toString()
  if (Number.isFinite(value)) return Object.is(value, -0) ? '-0' : String(value)
  return `"${value}"`
}

/** @throws Error when it is no integer of 64 bits */
export function toInt64(name: string, value: number | bigint): bigint | number {
  if (typeof value === 'bigint' ? BigInt.asIntN(64, value) === value : Number.isSafeInteger(value)) return value
  throw new Error(`${name}: must be an integer of 64 bits (a bigint beyond 2^53), not ${String(value)}`)
}

/** @throws Error */
export function toTimestampMs(given: number | Date | undefined): number {
  const ms = given === undefined ? Date.now() : Math.round(Number(given))
  // Times before are seconds, and times after micro- or nanoseconds.
  if (ms >= 1e11 && ms <= 1e14) return ms
  throw new Error(`timestamp: must be milliseconds since the Unix epoch, or a Date, not ${String(given)}`)
}
