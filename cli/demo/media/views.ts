import type { Network, Prediction, Samples } from '../network.ts'

// What a validation looks like, in the formats in which the Python client logs it.

const bins = 40
const classes = 10

/** The predicted class of each image; -1 where no probability is a number. */
export function toClasses({ probabilities }: Prediction, count: number): number[] {
  return Array.from({ length: count }, (_, image) => {
    let best = -1
    for (let it = 0; it < classes; it++) {
      const probability = probabilities[image * classes + it] as number
      if (probability > (best < 0 ? -1 : (probabilities[image * classes + best] as number))) best = it
    }
    return best
  })
}

export function toConfusionMatrix(samples: Samples, predicted: number[]): object {
  const matrix = Array.from({ length: classes }, () => new Array<number>(classes).fill(0))
  for (const [image, found] of predicted.entries()) {
    const row = matrix[samples.labels[image] as number] as number[]
    if (found >= 0) row[found] = (row[found] as number) + 1
  }
  return {
    version: 1,
    title: 'Digits of the validation',
    labels: Array.from({ length: classes }, (_, it) => String(it)),
    matrix,
    rowLabel: 'Written',
    columnLabel: 'Read as',
  }
}

/** Of the weights of one layer; those that are no finite numbers are counted apart. */
export function toHistogram(name: string, values: Float64Array): object {
  const finite = values.filter(Number.isFinite)
  const [least, most] = finite.reduce(([a, b], it) => [Math.min(a, it), Math.max(b, it)], [Infinity, -Infinity])
  const of = { version: 1, name, count: finite.length, nonFinite: values.length - finite.length }
  if (finite.length === 0 || !(least < most) || !Number.isFinite(most - least)) {
    return {
      ...of,
      edges: [],
      counts: [],
      count: 0,
      nonFinite: values.length,
      min: null,
      max: null,
      mean: null,
      std: null,
    }
  }
  const width = (most - least) / bins
  const counts = new Array<number>(bins).fill(0)
  for (const it of finite) {
    const bin = Math.min(bins - 1, Math.floor((it - least) / width))
    counts[bin] = (counts[bin] as number) + 1
  }
  const edges = [...Array.from({ length: bins }, (_, it) => least + it * width), most]
  const mean = finite.reduce((sum, it) => sum + it, 0) / finite.length
  const std = Math.sqrt(finite.reduce((sum, it) => sum + (it - mean) ** 2, 0) / finite.length)
  return { ...of, edges, counts, min: least, max: most, mean, std }
}

/** How many of the most certain answers are right: accuracy over the share of images that are answered. */
export function toCertaintyCurve(samples: Samples, prediction: Prediction, predicted: number[]): object {
  const certain = predicted.map((it, image) =>
    it < 0 ? 0 : (prediction.probabilities[image * classes + it] as number),
  )
  const order = certain.map((_, image) => image).toSorted((a, b) => (certain[b] as number) - (certain[a] as number))
  let right = 0
  const y = order.map((image, at) => {
    if (predicted[image] === samples.labels[image]) right += 1
    return right / (at + 1)
  })
  return { name: 'accuracy over share answered', x: y.map((_, at) => (at + 1) / y.length), y }
}

/** One row for each image: what it is, what it was read as, and how sure the network was of each digit. */
export function toTable(samples: Samples, { probabilities }: Prediction, predicted: number[]): string {
  const names = ['image', 'written', 'read as', 'right', ...Array.from({ length: classes }, (_, it) => `p(${it})`)]
  const rows = predicted.map((found, image) => {
    const of = Array.from(probabilities.subarray(image * classes, (image + 1) * classes), (it) => it.toPrecision(6))
    const label = samples.labels[image] as number
    return [image, label, found < 0 ? 'nothing' : found, found === label ? 'yes' : 'no', ...of].join(',')
  })
  return `${[names.join(','), ...rows].join('\n')}\n`
}

/** The images as the last hidden layer sees them: vectors and labels as TensorBoard's projector reads them. */
export function toEmbedding(
  samples: Samples,
  { hidden }: Prediction,
): { vectors: string; labels: string; shape: number[] } {
  const width = hidden.length / samples.count
  const lines = Array.from({ length: samples.count }, (_, image) =>
    Array.from(hidden.subarray(image * width, (image + 1) * width), (it) => it.toPrecision(7)).join('\t'),
  )
  const labels = Array.from(samples.labels).join('\n')
  return { vectors: `${lines.join('\n')}\n`, labels: `${labels}\n`, shape: [samples.count, width] }
}

/** The pixels of the first hidden layer's units as points in space: where each looks most, and with what weight. */
export function toPoints(name: string, [first]: Network): object {
  const points: number[][] = []
  for (let unit = 0; first && unit < first.outputs; unit++) {
    const weights = first.weights.subarray(unit * first.inputs, (unit + 1) * first.inputs)
    let most = 0
    for (const [at, it] of weights.entries()) if (Math.abs(it) > Math.abs(weights[most] as number)) most = at
    const weight = weights[most] as number
    if (!Number.isFinite(weight)) continue
    const colour = weight > 0 ? [0.18, 0.36, 0.84] : [0.75, 0.16, 0.18]
    points.push([most % 8, 7 - Math.floor(most / 8), weight, ...colour])
  }
  return { version: 1, name, points, boxes: [] }
}

/** A page with a bar for each digit, drawn by its own script. */
export function toPage(samples: Samples, predicted: number[], epoch: number): string {
  const shares = Array.from({ length: classes }, (_, digit) => {
    const images = predicted.flatMap((found, image) => (samples.labels[image] === digit ? [found] : []))
    return images.length === 0 ? 0 : images.filter((it) => it === digit).length / images.length
  })
  return `<!doctype html>
<meta charset="utf-8">
<style>
  body { font: 14px system-ui, sans-serif; margin: 16px; color: #171a21; background: #fff }
  div { display: flex; gap: 8px; align-items: center; margin: 2px 0 }
  i { display: inline-block; height: 14px; background: #2f5bd7 }
</style>
<h1 style="font-size: 16px">Right answers by digit, epoch ${epoch}</h1>
<p id="bars">Needs a script.</p>
<script>
  const shares = ${JSON.stringify(shares)}
  document.getElementById('bars').replaceChildren(...shares.map((share, digit) => {
    const row = document.createElement('div')
    const bar = document.createElement('i')
    bar.style.width = 200 * share + 'px'
    row.append(digit, bar, (100 * share).toFixed(1) + ' %')
    return row
  }))
</script>
`
}
