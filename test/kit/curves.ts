/**
 * The data set: 100 experiments with 50 metrics of 400 steps, shaped like training curves (exponential decay with noise).
 * Every value is a pure function of its place, so that a read can be checked without a ledger. Values are rounded to 32
 * bits, as in most training frameworks, and so have 16 to 18 digits in JSON.
 */
export type DataSet = { experiments: number; metrics: number; steps: number }

export const dataSet: DataSet = { experiments: 100, metrics: 50, steps: 400 }

export type Place = { experiment: number; metric: number; step: number }

const startMs = 1_760_000_000_000
const stepMs = 730
const jitterMs = 40

const metricKinds = ['loss', 'accuracy', 'grad_norm', 'weight_norm', 'learning_rate']

export function nameOf(metric: number): string {
  return `${metricKinds[metric % metricKinds.length]}/block_${Math.floor(metric / metricKinds.length)}`
}

export function contextOf(metric: number): string {
  return metric % 10 < 8 ? 'train' : 'validate'
}

/** Names and contexts of the default data set. */
export const metricNames = Array.from({ length: dataSet.metrics }, (_, metric) => nameOf(metric))
export const metricContexts = metricNames.map((_, metric) => contextOf(metric))

export function valueAt({ experiment, metric, step }: Place): number {
  const level = 0.05 + noise(experiment, metric, -1)
  const height = 4 * noise(experiment, metric, -2)
  const pace = 20 + 200 * noise(experiment, metric, -3)
  const clean = level + height * Math.exp(-step / pace)
  return Math.fround(clean * (1 + 0.1 * (noise(experiment, metric, step) - 0.5)))
}

/** All metrics of a step are logged at once. */
export function timestampAt({ experiment, step }: Pick<Place, 'experiment' | 'step'>): number {
  return startMs + experiment * 1_000 + step * stepMs + Math.floor(jitterMs * noise(experiment, 0, step))
}

/** 0 to 1, always the same for the same place (the finish of MurmurHash3). */
function noise(experiment: number, metric: number, step: number): number {
  let bits = Math.imul(experiment + 1, 0x9e3779b1) ^ Math.imul(metric + 1, 0x85ebca6b) ^ Math.imul(step + 7, 0xc2b2ae35)
  bits = Math.imul(bits ^ (bits >>> 16), 0x85ebca6b)
  bits = Math.imul(bits ^ (bits >>> 13), 0xc2b2ae35)
  return ((bits ^ (bits >>> 16)) >>> 0) / 2 ** 32
}
