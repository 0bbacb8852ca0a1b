import { mkdir } from 'node:fs/promises'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Closers } from '../../runtime/closers.ts'
import { readCpuSeconds, readPeakMemory } from '../../test/kit/processes/usage.ts'
import { type Contender, toRound, total } from '../contenders/contender.ts'
import type { Scenario } from '../contenders/scenarios.ts'
import { toData } from '../contenders/service.ts'
import type { DialectName } from '../load/dialects.ts'
import { startLoadProcess } from '../load/start-load-process.ts'

/** The limit until acknowledged points are counted. */
const countedMsMax = 20_000

/** A running server of somebody else's. */
export type PeerServer = {
  url: string
  pid(): number
  /** The API key of requests, if it needs one. */
  apiKey?: string
  /** Creates experiments, or only names them if the peer creates them on first use. */
  createExperiments(count: number): Promise<string[]>
  /** Resolves when this many points can be read, by a cheap check; the exact count follows. */
  waitUntilReadable(points: number): Promise<void>
  /** Counts all points with a query of the peer. */
  countPoints(): Promise<number>
  /** Flushes and merges everything; returns the bytes on disk. */
  flushToDisk(): Promise<number>
  version: string
}

export type Peer = {
  name: string
  about: string
  dialect: DialectName
  durability: string
  /** Prepares load for this rate, for peers that are much slower. */
  pointsPerSecondMax?: number
  /** Starts the peer in an empty folder. Throws PeerAbsent if it is not installed. */
  start(folder: string, closers: Closers): Promise<PeerServer>
}

type Settings = {
  scenario: Scenario
  folder: string
  secondsInAll: number
  roundsInAll: number
  closers: Closers
  progress(text: string): void
}

/** Starts a peer with the load of one of our scenarios. */
export async function openPeer(peer: Peer, settings: Settings): Promise<Contender> {
  const { secondsInAll, roundsInAll, closers, progress } = settings
  // For most peers only names of experiments are prepared, so prepare enough for the fastest.
  const { pointsPerSecondMax = settings.scenario.pointsPerSecondMax * 4 } = peer
  const scenario = { ...settings.scenario, pointsPerSecondMax }
  progress('starting')
  const folder = path.join(settings.folder, peer.name)
  await mkdir(folder, { recursive: true })
  const server = await peer.start(folder, closers)
  const { data, passes } = toData(scenario, secondsInAll, peer.pointsPerSecondMax === undefined ? roundsInAll : 1)
  const load = startLoadProcess()
  closers.push(() => load.close())
  progress('preparing requests')
  await load.prepare({
    kind: 'prepareHttp',
    dialect: peer.dialect,
    url: server.url,
    apiKey: server.apiKey ?? '',
    shape: scenario.shape,
    data,
    connections: scenario.connections,
    experimentKeys: await server.createExperiments(passes * data.experiments),
  })
  let acknowledged = 0
  let unclear = 0
  const errors: Record<string, number> = {}

  async function readCpu() {
    const seconds = await readCpuSeconds([server.pid()])
    return seconds && { [peer.name]: seconds[0] ?? 0 }
  }

  /** A point counts as stored only when the peer returns it. */
  async function checkCount() {
    const deadline = performance.now() + countedMsMax
    let found = await server.countPoints()
    // A new series may become visible slightly after its points are counted.
    while (found < acknowledged && performance.now() < deadline) {
      await sleep(1_000)
      found = await server.countPoints()
    }
    if (found < acknowledged || found > acknowledged + unclear) {
      throw new Error(`${peer.name} has ${found} points; ${acknowledged} were acknowledged, ${unclear} may be there.`)
    }
  }

  return {
    about: {
      scenario: `${scenario.name}: ${peer.name}`,
      queue: 'none',
      durability: peer.durability,
      versions: server.version,
    },
    errors,
    readCpu,
    async runRound(seconds) {
      const cpuBefore = await readCpu()
      const startedAt = performance.now()
      const report = await load.run(seconds)
      acknowledged += total(report.acknowledged)
      unclear += report.unclearPoints
      for (const [what, count] of Object.entries(report.errors)) errors[what] = (errors[what] ?? 0) + count
      await server.waitUntilReadable(acknowledged)
      const wallSeconds = (performance.now() - startedAt) / 1_000 - report.preparingSeconds
      const round = toRound(report, wallSeconds, cpuBefore, await readCpu())
      // Outside its measurement: for some servers this query costs more than the points.
      await checkCount()
      return round
    },
    async finish() {
      const peaks = await readPeakMemory([server.pid()])
      const peakMiB = peaks && { peakMiB: { [peer.name]: (peaks[0] ?? 0) / 2 ** 20 } }
      const bytes = await server.flushToDisk()
      await checkCount()
      const verified = { points: acknowledged, pointsReadOverHttp: 0 }
      return { ...peakMiB, verified, bytesPerPoint: bytes / (await server.countPoints()) }
    },
  }
}

/** Names of eight characters, for servers that create an experiment for every new name. */
export function nameExperiments(count: number): string[] {
  return Array.from({ length: count }, (_, index) => `e${String(index).padStart(7, '0')}`)
}

const triesMax = 4
const retryMs = 500

/** Sends a request to a peer; retries lost connections. Rejects unless the answer is a success. */
export async function ask(url: string, init?: RequestInit): Promise<string> {
  for (let tries = 1; ; tries++) {
    try {
      const answer = await fetch(url, { signal: AbortSignal.timeout(300_000), ...init })
      const text = await answer.text()
      if (answer.ok) return text
      throw new Error(`${new URL(url).pathname} was answered ${answer.status}: ${text.slice(0, 500)}`)
    } catch (error) {
      // `fetch` throws this without an answer: the server is starting, or closed an idle connection.
      if (!(error instanceof TypeError)) throw error
      if (tries === triesMax) throw new Error(`${url} does not answer: ${String(error.cause)}`, { cause: error })
      await sleep(retryMs)
    }
  }
}
