import { readFileSync } from 'node:fs'
import { gunzipSync } from 'node:zlib'
import type { Samples } from './network.ts'
import { createRandom, shuffle } from './random.ts'

// The file and its license: README.md beside it.
const FILE = new URL('./digits.csv.gz', import.meta.url)
const IMAGES = 1797
const PIXELS = 64
const INK_MAX = 16

/** All 1,797 images: 64 features each, ink from 0 to 1, and labels 0 to 9; throws when the file is damaged. */
export function loadDigits(): Samples {
  const lines = gunzipSync(readFileSync(FILE)).toString('ascii').trim().split('\n')
  const features = new Float64Array(lines.length * PIXELS)
  const labels = new Uint8Array(lines.length)
  for (const [sample, line] of lines.entries()) {
    const numbers = line.split(',').map(Number)
    if (numbers.length !== PIXELS + 1 || numbers.some((number) => !(number >= 0 && number <= INK_MAX))) {
      throw new Error(`digits.csv.gz: line ${sample + 1} is not 64 pixels of 0 to 16 and a label`)
    }
    for (let pixel = 0; pixel < PIXELS; pixel++)
      features[sample * PIXELS + pixel] = (numbers[pixel] as number) / INK_MAX
    labels[sample] = numbers[PIXELS] as number
  }
  if (lines.length !== IMAGES) throw new Error(`digits.csv.gz: ${lines.length} images instead of ${IMAGES}`)
  return { features, labels, count: lines.length }
}

/** Shuffles by seed and splits: the first `share` (0 to 1) of the samples to train with, the rest to validate. */
export function splitSamples(samples: Samples, share: number, seed: number): { train: Samples; validate: Samples } {
  const order = shuffle(
    Uint32Array.from({ length: samples.count }, (_, sample) => sample),
    createRandom(seed),
  )
  const cut = Math.round(samples.count * share)
  return { train: pick(samples, order.subarray(0, cut)), validate: pick(samples, order.subarray(cut)) }
}

function pick(samples: Samples, chosen: Uint32Array): Samples {
  const width = samples.features.length / samples.count
  const features = new Float64Array(chosen.length * width)
  const labels = new Uint8Array(chosen.length)
  for (const [at, sample] of chosen.entries()) {
    features.set(samples.features.subarray(sample * width, (sample + 1) * width), at * width)
    labels[at] = samples.labels[sample] as number
  }
  return { features, labels, count: chosen.length }
}
