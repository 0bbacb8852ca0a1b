/** The span of x, whatever its unit, counts as so many steps of one. */
const stepsOfSpan = 1_000

/**
 * An exponential moving average that weighs by distance in x: a gap forgets as much as many points at the same distance. The
 * first values are corrected for having no past. Null, which is no number, breaks nothing and stays null.
 *
 * @param strength from 0 (nothing) to below 1
 */
export function smooth(x: number[], y: (number | null)[], strength: number): (number | null)[] {
  const span = (x.at(-1) ?? 0) - (x[0] ?? 0)
  if (strength <= 0 || span <= 0) return y
  const keptOfStep = Math.sqrt(Math.min(strength, 0.999))
  let sum = 0
  let weight = 0
  let before: number | undefined
  return y.map((value, at) => {
    if (value === null) return null
    const here = x[at] as number
    const kept = before === undefined ? 0 : keptOfStep ** (((here - before) / span) * stepsOfSpan)
    before = here
    sum = sum * kept + value
    weight = weight * kept + 1
    return sum / weight
  })
}
