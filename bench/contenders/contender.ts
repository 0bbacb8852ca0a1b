import { setTimeout as sleep } from 'node:timers/promises'
import type { LoadReport } from '../load/load-report.ts'
import type { QueueKind } from './scenarios.ts'

/**
 * Our service or a peer, running and with its load prepared. A round sends for a given time and ends when every
 * acknowledged point can be read.
 */
export type Contender = {
  runRound(seconds: number): Promise<Round>
  /** Seconds of CPU so far, by process; undefined without /proc. */
  readCpu(): Promise<Cpu>
  /** Compares stored and acknowledged points, and measures the disk space. */
  finish(): Promise<Finished>
  /** Errors so far, with their counts. */
  errors: Record<string, number>
  about: About
}

type About = {
  scenario: string
  queue: QueueKind | 'none'
  /** What an acknowledged point survives. */
  durability: string
  /** The programs and their versions. */
  versions: string
}

export type Cpu = Record<string, number> | undefined

export type Round = {
  points: number
  /** From the first request until all its points can be read. */
  seconds: number
  pointsPerSecond: number
  p50Ms: number
  p99Ms: number
  /** Microseconds of CPU per point, by process; absent without /proc. */
  cpuMicros?: Record<string, number>
  unclearPoints: number
}

type Finished = {
  bytesPerPoint?: number
  verified?: { points: number; pointsReadOverHttp: number }
  /** Peak memory by process. */
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

/** Warms up all contenders, runs them in turn (A B A B) and verifies each. */
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

/** Waits until all are idle, 20 s at most: merges of one contender must not slow the next. */
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
