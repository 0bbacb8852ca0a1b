import { setTimeout as sleep } from 'node:timers/promises'
import type { LoadReport } from '../load/load-report.ts'
import type { QueueKind } from './scenarios.ts'

/**
 * Whoever is measured, we or a peer: everything it consists of runs, and its load is prepared. A round sends for so long
 * and is over when all that was acknowledged can be read.
 */
export type Contender = {
  runRound(seconds: number): Promise<Round>
  /** Seconds of CPU used so far by all its processes, by name; undefined where that cannot be told. */
  readCpu(): Promise<Cpu>
  /** Compares what is stored with what was acknowledged, and tells what it takes on disk. */
  finish(): Promise<Finished>
  /** What went wrong so far, and how often. */
  errors: Record<string, number>
  about: About
}

type About = {
  scenario: string
  queue: QueueKind | 'none'
  /** What an acknowledged point is safe from. */
  durability: string
  /** The programs and their versions. */
  versions: string
}

export type Cpu = Record<string, number> | undefined

export type Round = {
  points: number
  /** From the first request to when all its points could be read. */
  seconds: number
  pointsPerSecond: number
  p50Ms: number
  p99Ms: number
  /** Microseconds of CPU for each point, by process; absent where CPU time cannot be told. */
  cpuMicros?: Record<string, number>
  unclearPoints: number
}

type Finished = {
  bytesPerPoint?: number
  verified?: { points: number; pointsReadOverHttp: number }
  /** The most memory that each process had at a time. */
  peakMiB?: Record<string, number>
}

export type Measured = About & Finished & { rounds: Round[]; errors: Record<string, number> }

type Settings = {
  contenders: Contender[]
  rounds: number
  seconds: number
  progress(text: string): void
}

const warmUpSecondsMax = 2

/** Warms all up, lets them run in turn (A B A B), and then verifies each. */
export async function measure({ contenders, rounds, seconds, progress }: Settings): Promise<Measured[]> {
  const measured: Measured[] = contenders.map(({ about, errors }) => ({ ...about, rounds: [], errors }))
  for (const contender of contenders) {
    progress(`${titleOf(contender)}: warming up`)
    await contender.runRound(Math.min(warmUpSecondsMax, seconds))
  }
  for (let round = 1; round <= rounds; round++) {
    for (const [index, contender] of contenders.entries()) {
      await waitUntilIdle(contenders)
      progress(`${titleOf(contender)}: round ${round} of ${rounds}`)
      const ran = await contender.runRound(seconds)
      if (ran.points === 0) {
        throw new Error(
          `${titleOf(contender)}: nothing was acknowledged in a round. ${JSON.stringify(contender.errors)}`,
        )
      }
      measured[index]?.rounds.push(ran)
    }
  }
  for (const [index, contender] of contenders.entries()) {
    progress(`${titleOf(contender)}: verifying`)
    const finished = await contender.finish()
    Object.assign(measured[index] as Measured, finished)
    if (!finished.verified) continue
    const { points, pointsReadOverHttp } = finished.verified
    const sample = pointsReadOverHttp > 0 ? `; ${pointsReadOverHttp} read over HTTP are the same` : ''
    progress(`${titleOf(contender)}: all ${points} acknowledged points are stored once${sample}`)
  }
  return measured
}

function titleOf({ about: { scenario, queue } }: Contender): string {
  return queue === 'none' ? scenario : `${scenario} on ${queue}`
}

const idleCpuShare = 0.1
const idleWindowMs = 300
const idleMsMax = 20_000

/** What one has still to merge or compact is not to slow the next: waits until all are quiet, or for 20 s. */
async function waitUntilIdle(contenders: Contender[]): Promise<void> {
  if (contenders.length < 2) return
  const deadline = performance.now() + idleMsMax
  let before = await sumCpu(contenders)
  while (before !== undefined && performance.now() < deadline) {
    await sleep(idleWindowMs)
    const now = await sumCpu(contenders)
    if (now === undefined || now - before < (idleCpuShare * idleWindowMs) / 1_000) return
    before = now
  }
}

async function sumCpu(contenders: Contender[]): Promise<number | undefined> {
  const all = await Promise.all(contenders.map((it) => it.readCpu()))
  return all.every((it) => it) ? all.reduce((sum, it) => sum + total(Object.values(it ?? {})), 0) : undefined
}

export function toRound(report: LoadReport, seconds: number, cpuBefore: Cpu, cpuAfter: Cpu): Round {
  const points = total(report.acknowledged)
  const { p50Ms, p99Ms, unclearPoints } = report
  const round = { points, seconds, pointsPerSecond: points / seconds, p50Ms, p99Ms, unclearPoints }
  if (!cpuBefore || !cpuAfter) return round
  const cpuMicros = Object.entries(cpuAfter).map(([name, used]) => [
    name,
    ((used - (cpuBefore[name] ?? 0)) * 1e6) / points,
  ])
  return { ...round, cpuMicros: Object.fromEntries(cpuMicros) }
}

export function total(values: number[]): number {
  return values.reduce((sum, it) => sum + (it ?? 0), 0)
}
