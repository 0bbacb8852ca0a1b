import { createHash } from 'node:crypto'
import { classify, type Network, type Samples } from '../network.ts'
import { createRandom, gaussian, type Random } from '../random.ts'

// Images that come to the model in production, day by day. They are images that it was not trained with, as three scanners
// make them: that is what drifts. What the model says of them is computed by the network, and so is what is measured of
// each image; nobody draws a curve. The same day always has the same images.

const side = 8
const perDay = 160
/** Days before today at which something changes. */
const newVersionAt = 55
const newScannerAt = 30
const wornLampFrom = 18
/** A person looks at this share of the images, some days later. */
const labelledShare = 0.7
const dayMs = 86_400_000

type Scanner = 'north' | 'south' | 'east'

export type Image = {
  predictionId: string
  modelVersion: string
  timestamp: number
  features: Record<string, number | string | boolean | null>
  prediction: { value: string; probability: number }
  label: { value: string; timestamp: number } | undefined
}

/** Digits as classes: a file of CSV tells a text from a number by its look only. */
const names = ['zero', 'one', 'two', 'three', 'four', 'five', 'six', 'seven', 'eight', 'nine']
const toName = (digit: number | undefined) => names[digit ?? 0] as string

type Networks = Record<'1.0.0' | '1.1.0', Network>

/** The images of a day, `ago` days before the one that begins at `todayMs`; later ones than `nowMs` are left out. */
export function imagesOfDay(
  { samples, networks, seed }: { samples: Samples; networks: Networks; seed: number },
  { todayMs, nowMs, ago }: { todayMs: number; nowMs: number; ago: number },
): Image[] {
  const dayStart = todayMs - ago * dayMs
  const day = Math.round(dayStart / dayMs)
  const random = createRandom(seed * 1_000_003 + day)
  const modelVersion = ago > newVersionAt ? '1.0.0' : '1.1.0'
  // Fewer at the end of a week.
  const isWeekend = [0, 6].includes(new Date(dayStart).getUTCDay())
  const count = Math.round((isWeekend ? 0.6 : 1) * perDay * (0.9 + 0.2 * random()))
  return Array.from({ length: count }, (_, nth): Image => {
    const timestamp = dayStart + Math.floor(((nth + random()) / count) * dayMs)
    const sample = Math.floor(random() * samples.count)
    const scanner = pickScanner(ago, random)
    const pixels = scan(samples, sample, { scanner, ago, random })
    const { label, probability } = classify(networks[modelVersion], pixels)
    const truth = toName(samples.labels[sample])
    const isLooked = random() < labelledShare
    const delayMs = Math.exp(gaussian(random) * 0.7 + 0.9) * dayMs
    return {
      predictionId: createHash('sha256').update(`${seed} ${day} ${nth}`).digest('hex').slice(0, 24),
      modelVersion,
      timestamp,
      features: measure(pixels, scanner),
      prediction: { value: toName(label), probability },
      label: isLooked ? { value: truth, timestamp: Math.round(timestamp + delayMs) } : undefined,
    }
  }).filter((it) => it.timestamp <= nowMs)
}

/** The images that a network was trained with, with what is measured of them. */
export function imagesOfTraining({ samples, network, seed }: { samples: Samples; network: Network; seed: number }) {
  const random = createRandom(seed)
  return Array.from({ length: samples.count }, (_, sample) => {
    const scanner = random() < 0.6 ? 'north' : 'south'
    const pixels = scan(samples, sample, { scanner, ago: Number.POSITIVE_INFINITY, random })
    const { label, probability } = classify(network, pixels)
    return {
      predictionId: `training-${sample}`,
      features: measure(pixels, scanner),
      prediction: { value: toName(label), probability },
      label: toName(samples.labels[sample]),
    }
  })
}

function pickScanner(ago: number, random: Random): Scanner {
  const share = random()
  // The new scanner takes over little by little.
  if (ago <= newScannerAt && share < 0.15 + 0.3 * (1 - ago / newScannerAt)) return 'east'
  return random() < 0.6 ? 'north' : 'south'
}

/** An image as a scanner makes it: each has noise, the lamp of `north` wears out, and `east` scans crookedly and pale. */
function scan(
  { features }: Samples,
  sample: number,
  { scanner, ago, random }: { scanner: Scanner; ago: number; random: Random },
): Float64Array {
  const pixels = new Float64Array(side * side)
  const worn = scanner === 'north' ? Math.max(0, (wornLampFrom - ago) / wornLampFrom) * 0.45 : 0
  const shift = scanner === 'east' && random() < 0.6 ? 1 : 0
  const light = scanner === 'east' ? 0.75 : 1 - worn
  for (let row = 0; row < side; row++) {
    for (let column = shift; column < side; column++) {
      const ink = features[sample * side * side + row * side + column - shift] as number
      const noise = ink === 0 ? 0 : gaussian(random) * 0.03
      pixels[row * side + column] = Math.min(1, Math.max(0, ink * light + noise))
    }
  }
  return pixels
}

const round = (value: number) => Math.round(value * 10_000) / 10_000

/** What is measured of an image besides its digit; shares and ink are from 0 to 1, places in pixels. */
function measure(pixels: Float64Array, scanner: Scanner): Image['features'] {
  const at = (row: number, column: number) => pixels[row * side + column] as number
  const all = Array.from(pixels)
  const ink = all.reduce((sum, it) => sum + it, 0)
  const mean = ink / all.length
  let [rows, columns, upper, edges, mirrored] = [0, 0, 0, 0, 0]
  let [left, right, top, bottom] = [side, -1, side, -1]
  for (let row = 0; row < side; row++) {
    for (let column = 0; column < side; column++) {
      const it = at(row, column)
      rows += it * row
      columns += it * column
      if (row < side / 2) upper += it
      if (column > 0) edges += Math.abs(it - at(row, column - 1))
      mirrored += Math.abs(it - at(row, side - 1 - column))
      if (it < 0.25) continue
      left = Math.min(left, column)
      right = Math.max(right, column)
      top = Math.min(top, row)
      bottom = Math.max(bottom, row)
    }
  }
  return {
    ink: round(mean),
    contrast: round(Math.sqrt(all.reduce((sum, it) => sum + (it - mean) ** 2, 0) / all.length)),
    darkest: round(Math.max(...all)),
    dark_pixels: all.filter((it) => it > 0.5).length,
    width: Math.max(0, right - left + 1),
    height: Math.max(0, bottom - top + 1),
    centre_x: ink === 0 ? null : round(columns / ink),
    centre_y: ink === 0 ? null : round(rows / ink),
    upper_share: ink === 0 ? null : round(upper / ink),
    // The new scanner does not report it.
    edges: scanner === 'east' ? null : round(edges / side),
    symmetry: ink === 0 ? null : round(1 - mirrored / 2 / ink),
    touches_edge: left === 0 || right === side - 1,
    scanner,
  }
}
