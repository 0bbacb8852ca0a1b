/** `Math.min` and `Math.max` do not accept bigints. */
export function minBigInt(a: bigint, b: bigint): bigint {
  if (b < a) return b
  return a
}

export function maxBigInt(a: bigint, b: bigint): bigint {
  if (b > a) return b
  return a
}
