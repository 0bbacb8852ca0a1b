/** JSON as clients log it: Python writes NaN and the infinities without quotes. They become null, which is no number either. */
export function parseLogged(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return JSON.parse(text.replace(/"(?:[^"\\]|\\.)*"|-?Infinity|NaN/g, (it) => (it.startsWith('"') ? it : 'null')))
  }
}

export const isObject = (it: unknown): it is Record<string, unknown> =>
  typeof it === 'object' && it !== null && !Array.isArray(it)

/** A list of numbers; what is no finite number is NaN. */
export function toNumbers(it: unknown): number[] | undefined {
  return Array.isArray(it) ? it.map((value) => (typeof value === 'number' ? value : Number.NaN)) : undefined
}

/** The least and the greatest finite number; two zeros of none. */
export function toExtent(values: number[]): [number, number] {
  let least = Number.POSITIVE_INFINITY
  let most = Number.NEGATIVE_INFINITY
  for (const it of values) {
    if (!Number.isFinite(it)) continue
    if (it < least) least = it
    if (it > most) most = it
  }
  return least <= most ? [least, most] : [0, 0]
}
