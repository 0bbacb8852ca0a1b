import { setTimeout as sleep } from 'node:timers/promises'
import type { Cluster, Experiment } from '../cluster/cluster.ts'
import { addDifferences, compareRows, type Difference, isSame } from './comparison.ts'
import type { Expected } from './ledger.ts'
import { lineAlone, metricOf, summaryNameOf } from './rows.ts'
import {
  readOutputOverHttp,
  readPointsOverHttp,
  readStoredLines,
  readStoredPoints,
  readSummaryOverHttp,
} from './stored-rows.ts'

export type Verified = { overHttp: Difference; inClickHouse: Difference }

const quietPolls = 4
const pollMs = 250
const readsAtOnce = 4

/**
 * Waits until the queue is empty.
 *
 * @throws Error after `msMax`
 */
export async function waitUntilEmpty(depth: () => Promise<number | undefined>, msMax: number): Promise<void> {
  const deadline = performance.now() + msMax
  for (let quiet = 0; quiet < quietPolls; ) {
    const blocks = await depth()
    quiet = blocks === 0 ? quiet + 1 : 0
    if (performance.now() > deadline) throw new Error(`The queue still has ${blocks} blocks after ${msMax / 1000} s.`)
    await sleep(pollMs)
  }
}

/** Reads all rows both ways and compares them with the acknowledged ones. */
export async function verify(
  cluster: Cluster,
  experiments: Experiment[],
  expectedOf: (experiment: number) => Expected,
  onProgress: (share: number) => void,
): Promise<Verified> {
  const overHttp: Difference[] = []
  const inClickHouse: Difference[] = []
  for (const [index, experiment] of experiments.entries()) {
    onProgress(index / experiments.length)
    const expected = expectedOf(index)
    const { points, lines, unclear } = expected
    const named = `experiment ${experiment.key}`

    const metrics = new Set([...points, ...unclear.points].map(metricOf)).values()
    const read: string[] = []
    const readMetrics = async () => {
      for (const metric of metrics) {
        for (const row of await readPointsOverHttp(cluster, experiment.key, metric)) read.push(row)
      }
    }
    await Promise.all(Array.from({ length: readsAtOnce }, readMetrics))
    const summary = await readSummaryOverHttp(cluster, experiment.key)
    const output = await readOutputOverHttp(cluster, experiment.key)
    overHttp.push(
      compareRows(`HTTP, ${named}`, points, unclear.points, read),
      compareRows(`HTTP, summary of ${named}`, summaryNames(points), summaryNames(unclear.points), summary),
      compareRows(`HTTP, ${named}`, lines.map(lineAlone), unclear.lines.map(lineAlone), output),
    )

    const storedPoints = await readStoredPoints(cluster.clickhouse, experiment)
    const storedLines = await readStoredLines(cluster.clickhouse, experiment)
    inClickHouse.push(
      compareRows(`ClickHouse, ${named}`, points, unclear.points, storedPoints),
      compareRows(`ClickHouse, ${named}`, lines, unclear.lines, storedLines),
    )
  }
  return { overHttp: addDifferences(overHttp), inClickHouse: addDifferences(inClickHouse) }
}

function summaryNames(points: string[]): string[] {
  return [...new Set(points.flatMap((it) => summaryNameOf(it) ?? []))]
}

/** Differing rows and unexpected answers, in words; empty when there are none. */
export function listDifferences({ overHttp, inClickHouse }: Verified, unexpectedAnswers: string[]): string[] {
  const differences = Object.entries({ 'over HTTP': overHttp, 'in ClickHouse': inClickHouse })
  const sums = differences
    .filter(([, it]) => !isSame(it))
    .map(
      ([where, it]) => `${where}: ${it.lost} lost, ${it.repeated} repeated, ${it.altered} altered of ${it.rows} rows`,
    )
  return [...sums, ...differences.flatMap(([, it]) => it.first), ...unexpectedAnswers]
}
