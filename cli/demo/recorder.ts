import { batchAnswer, createdAnswer, savedAnswer } from './answers.ts'
import type { Client } from './client.ts'
import { type Ledger, type Point, toWireNumber } from './ledger.ts'
import type { MachineSample } from './machine.ts'

// Logs one experiment: every value goes to the service and into the ledger. Points wait in a small batch, and at
// most a few requests are under way: a slow service slows the training down instead of filling the memory.

const BATCH_POINTS_MAX = 200
const BATCH_WAIT_MS_MAX = 400
const REQUESTS_MAX = 6

export interface Recorder {
  readonly ledger: Ledger
  /** Refused or throttled points, as texts; there should be none. */
  readonly refusals: string[]
  /** Points of metrics, the machine's included, whose request was answered with 200. */
  acknowledged(): number
  parameter(name: string, value: string | number): Promise<void>
  other(key: string, value: string | number): Promise<void>
  tags(tags: string[]): Promise<void>
  /** Adds points to the next batch, which goes out when it is full or old enough. */
  points(points: Point[]): Promise<void>
  /** Logs one point with a request of its own. */
  point(point: Point): Promise<void>
  output(line: string, stderr: boolean): Promise<void>
  machine(sample: MachineSample): Promise<void>
  /** When the run began and ended, and that it has ended. */
  end(startTimeMillis: number, endTimeMillis: number): Promise<void>
  /** Sends the waiting points and resolves when all requests are answered; rejects with the first error. */
  drain(): Promise<void>
}

export interface NewExperiment {
  client: Client
  workspaceName: string
  projectName: string
  experimentName: string
}

/** Creates an experiment at the service (and its project if missing) and returns its recorder. */
export async function createRecorder({ client, ...names }: NewExperiment): Promise<Recorder> {
  const created = await client.post('write/experiment/create', names, createdAnswer)
  const { experimentKey } = created
  const ledger: Ledger = {
    ...names,
    experimentKey,
    link: created.link,
    startTimeMillis: Date.now(),
    endTimeMillis: Date.now(),
    points: [],
    systemPoints: [],
    parameters: new Map(),
    others: new Map(),
    tags: [],
    outputLines: [],
  }
  const refusals: string[] = []
  const underWay = new Set<Promise<void>>()
  let failure: { error: unknown } | undefined
  let acknowledged = 0
  let batch: Point[] = []
  let batchSince = 0
  let lines: { output: string; stderr: boolean; localTimestamp: number; offset: number }[] = []

  // Resolves once the request is sent; its error is thrown by the next send, or by drain.
  async function send(request: () => Promise<void>): Promise<void> {
    while (underWay.size >= REQUESTS_MAX) await Promise.race(underWay)
    if (failure) throw failure.error
    const sent: Promise<void> = request()
      .catch((error: unknown) => {
        failure ??= { error }
      })
      .finally(() => underWay.delete(sent))
    underWay.add(sent)
  }

  function write(path: string, body: object, points = 0): Promise<void> {
    return send(async () => {
      await client.post(`write/experiment/${path}`, { experimentKey, ...body }, savedAnswer)
      acknowledged += points
    })
  }

  async function flush(): Promise<void> {
    const full = batch
    const said = lines
    batch = []
    lines = []
    if (said.length > 0) await write('output', { outputLines: said })
    if (full.length === 0) return
    await send(async () => {
      const body = { experimentKey, metrics: full.map(toWirePoint) }
      const answer = await client.post('write/experiment/metrics/batch', body, batchAnswer)
      acknowledged += answer.accepted
      for (const { index, msg } of answer.rejected ?? []) refusals.push(`point ${index} of a batch: ${msg}`)
      if (answer.throttled) refusals.push(`${answer.throttled} points of a batch were throttled`)
    })
  }

  return {
    ledger,
    refusals,
    acknowledged: () => acknowledged,
    parameter: (parameterName, parameterValue) => {
      ledger.parameters.set(parameterName, parameterValue)
      return write('parameter', { parameterName, parameterValue, timestamp: Date.now() })
    },
    other: (key, value) => {
      ledger.others.set(key, value)
      return write('log-other', { key, value, timestamp: Date.now() })
    },
    tags: (addedTags) => {
      ledger.tags.push(...addedTags)
      return write('tags', { addedTags })
    },
    points: async (points) => {
      if (batch.length === 0) batchSince = Date.now()
      batch.push(...points)
      ledger.points.push(...points)
      if (batch.length >= BATCH_POINTS_MAX || Date.now() - batchSince >= BATCH_WAIT_MS_MAX) await flush()
    },
    point: (point) => {
      ledger.points.push(point)
      return write('metric', toWirePoint(point), 1)
    },
    output: async (line, stderr) => {
      lines.push({ output: `${line}\n`, stderr, localTimestamp: Date.now(), offset: ledger.outputLines.length })
      ledger.outputLines.push(line)
    },
    machine: async (sample) => {
      const { timestamp, cpuPercent, totalRam, usedRam, loadAverage } = sample
      const logged = toSystemPoints(sample)
      ledger.systemPoints.push(...logged)
      if (cpuPercent.length > 0) {
        await write('cpu-metrics', { cpuPercentUtilization: cpuPercent, timestamp }, cpuPercent.length)
      }
      await write('ram-metrics', { totalRam, usedRam, timestamp }, 2)
      await write('load-metrics', { loadAverage, timestamp }, 1)
    },
    end: async (startTimeMillis, endTimeMillis) => {
      Object.assign(ledger, { startTimeMillis, endTimeMillis })
      await write('set-start-end-time', { startTimeMillis, endTimeMillis })
      await write('update-status', { isAlive: false, hasCrashed: false })
    },
    drain: async () => {
      await flush()
      await Promise.all(underWay)
      if (failure) throw failure.error
    },
  }
}

function toWirePoint(point: Point): object {
  return { ...point, metricValue: toWireNumber(point.metricValue) }
}

function toSystemPoints({ timestamp, cpuPercent, totalRam, usedRam, loadAverage }: MachineSample): Point[] {
  const toPoint = (metricName: string, metricValue: number): Point => {
    return { metricName, metricValue, context: null, step: null, epoch: null, timestamp }
  }
  return [
    ...cpuPercent.map((percent, core) => toPoint(`sys.cpu.percent.${String(core).padStart(2, '0')}`, percent)),
    toPoint('sys.ram.total', totalRam),
    toPoint('sys.ram.used', usedRam),
    toPoint('sys.load.average', loadAverage),
  ]
}
