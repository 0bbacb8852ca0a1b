import { createRandom } from '../../cli/demo/random.ts'

/** Random choices, determined by seed and number, so that a single request can be repeated. */
export type Choices = ReturnType<typeof createChoices>

export function createChoices(seed: number, number: number) {
  const random = createRandom(Math.imul(seed, 0x9e3779b1) ^ Math.imul(number + 1, 0x85ebca6b))
  const below = (limit: number) => Math.floor(random() * limit)
  return {
    /** A whole number from 0 to below `limit`. */
    below,
    /** True once in `times`. */
    oneIn: (times: number) => below(times) === 0,
    one: <T>(list: readonly T[]): T => list[below(list.length)] as T,
  }
}
