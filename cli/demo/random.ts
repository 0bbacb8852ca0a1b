/** Uniform numbers in [0, 1), always the same ones for the same seed (mulberry32, 32 bits of state). */
export type Random = () => number

/** A generator of uniform numbers in [0, 1) for a seed (any number; its lowest 32 bits count). */
export function createRandom(seed: number): Random {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}

/** One number of the standard normal distribution (Box-Muller). */
export function gaussian(random: Random): number {
  return Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random())
}

/** Shuffles a list in place (Fisher-Yates) and returns it. */
export function shuffle(list: Uint32Array, random: Random): Uint32Array {
  for (let last = list.length - 1; last > 0; last--) {
    const other = Math.floor(random() * (last + 1))
    const kept = list[last] as number
    list[last] = list[other] as number
    list[other] = kept
  }
  return list
}
