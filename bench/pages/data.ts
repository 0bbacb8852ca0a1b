import { timestampAt, valueAt } from '../../test/kit/curves.ts'

/** So many runs with so many metrics of so many steps. */
export type Size = { runs: number; metrics: number; steps: number }

/** What every tracker of the comparison gets. */
export const sharedSize: Size = { runs: 100, metrics: 12, steps: 500 }

/** Without a prefix, so that all charts stand in one section. */
export const metricName = (metric: number) => `metric ${String(metric).padStart(3, '0')}`

export const runName = (run: number) => `run ${String(run).padStart(4, '0')}`

/** Hyperparameters of a run, as a sweep has them. */
export function paramsOf(run: number): Record<string, number | string> {
  return {
    lr: 10 ** -(1 + (run % 5)),
    batch_size: 16 << (run % 4),
    optimizer: ['adam', 'sgd', 'lion'][run % 3] as string,
  }
}

export type Series = { metricName: string; steps: number[]; values: number[]; timestamps: number[] }

/** The series of a run. */
export function seriesOf(run: number, { metrics, steps }: Size): Series[] {
  const all = Array.from({ length: steps }, (_, step) => step)
  const timestamps = all.map((step) => timestampAt({ experiment: run, step }))
  return Array.from({ length: metrics }, (_, metric) => ({
    metricName: metricName(metric),
    steps: all,
    values: all.map((step) => valueAt({ experiment: run, metric, step })),
    timestamps,
  }))
}

/** Does this for every run, some at once. */
export async function forEachRun(count: number, write: (run: number) => Promise<void>, atOnce = 4): Promise<void> {
  const runs = Array.from({ length: count }, (_, run) => run).values()
  const work = async () => {
    for (const run of runs) await write(run)
  }
  await Promise.all(Array.from({ length: atOnce }, work))
}
