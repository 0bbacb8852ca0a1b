import type { Line } from './line.ts'

type Options = {
  /** What is visible, in units of x. */
  from: number
  to: number
  isLog: boolean
  /** Leaves out values far from most others. */
  cutsOutliers: boolean
}

const padding = 0.06
/** Values so many times the distance between the quartiles beyond them are outliers, as box plots have it. */
const whisker = 1.5
const samplesMin = 8

/** From the least to the greatest value that is visible, extremes of buckets included; undefined when there is none. */
export function toYRange(lines: Line[], { from, to, isLog, cutsOutliers }: Options): [number, number] | undefined {
  const values: number[] = []
  let low = Number.POSITIVE_INFINITY
  let high = Number.NEGATIVE_INFINITY
  for (const { x, xTo, min, max } of lines) {
    for (let at = 0; at < x.length; at++) {
      if ((xTo[at] as number) < from || (x[at] as number) > to) continue
      for (const value of [min[at], max[at]]) {
        if (value == null || (isLog && value <= 0)) continue
        if (value < low) low = value
        if (value > high) high = value
        if (cutsOutliers) values.push(value)
      }
    }
  }
  if (low > high) return undefined
  if (cutsOutliers && values.length >= samplesMin) [low, high] = cut(values, low, high)
  return isLog ? [low / 1.2, high * 1.2] : pad(low, high)
}

function cut(values: number[], low: number, high: number): [number, number] {
  values.sort((a, b) => a - b)
  const at = (part: number) => values[Math.round(part * (values.length - 1))] as number
  const reach = whisker * (at(0.75) - at(0.25))
  return reach === 0 ? [low, high] : [Math.max(low, at(0.25) - reach), Math.min(high, at(0.75) + reach)]
}

function pad(low: number, high: number): [number, number] {
  const room = (high - low) * padding || Math.abs(low) * padding || 1
  return [low - room, high + room]
}
