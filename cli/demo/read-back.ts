import { setTimeout as sleep } from 'node:timers/promises'
import {
  metadataAnswer,
  metricAnswer,
  outputAnswer,
  type ReadPoint,
  type Summary,
  summaryAnswer,
  tagsAnswer,
} from './answers.ts'
import type { Client, Query } from './client.ts'
import { type Ledger, type Point, toSummaryName } from './ledger.ts'

// Reads an experiment back and compares it with the ledger, value for value. A write is readable a moment after its
// answer, so each read is repeated until it agrees. What still differs when no read has come to agree for a while is a
// mismatch: a machine that is busy with a training has its time, and data that are lost are told.

const WAIT_MS_MAX = 30_000
const FIRST_PAUSE_MS = 50
const PAUSE_MS_MAX = 1000
const MAX_POINTS = 100
const READS_AT_ONCE = 4
const LISTED_MAX = 10

export interface ReadBack {
  /** Points in the answers to get-metric, each series counted once. */
  pointsRead: number
  /** Reads that were compared. */
  reads: number
  /** The differences, one line each; empty if there are none. */
  mismatches: string[]
  durationMs: number
}

interface ReadBackDeps {
  client: Client
  ledger: Ledger
  signal: AbortSignal
}

interface Check {
  what: string
  /** Reads once and returns the differences from the ledger. */
  run(): Promise<string[]>
}

interface Waiting {
  signal: AbortSignal
  /** For how long data may become readable after those before them. */
  waitMsMax?: number
  /** Milliseconds of a clock that never goes back. */
  now?: () => number
}

/** Compares the whole ledger with the reads; rejects with DemoError if the service does not answer. */
export async function readBack({ client, ledger, signal }: ReadBackDeps): Promise<ReadBack> {
  const startedAt = performance.now()
  const { experimentKey } = ledger
  const pointsPerSeries = new Map<string, number>()

  const getMetric = async (metricName: string, narrowing: Query = {}): Promise<ReadPoint[]> => {
    const query = { experimentKey, metricName, ...narrowing }
    return (await client.get('experiment/metrics/get-metric', query, metricAnswer)).metrics
  }
  const summaryOf = (path: string) => client.get(path, { experimentKey }, summaryAnswer)

  const checks: Check[] = [
    {
      what: 'metadata',
      run: async () =>
        compareMetadata(ledger, await client.get('experiment/metadata', { experimentKey }, metadataAnswer)),
    },
    {
      what: 'metrics/summary',
      run: async () => compareMetricSummary(ledger.points, await summaryOf('experiment/metrics/summary')),
    },
    {
      what: 'parameters',
      run: async () => compareValues(ledger.parameters, await summaryOf('experiment/parameters')),
    },
    {
      what: 'log-other',
      run: async () => {
        const expected = new Map<string, string | number>([['Name', ledger.experimentName], ...ledger.others])
        return compareValues(expected, await summaryOf('experiment/log-other'))
      },
    },
    {
      what: 'tags',
      run: async () => {
        const { tags } = await client.get('experiment/tags', { experimentKey }, tagsAnswer)
        return compareText('tags', ledger.tags.toSorted().join(', '), tags.toSorted().join(', '))
      },
    },
    {
      what: 'output',
      run: async () => {
        const { output } = await client.get('experiment/output', { experimentKey }, outputAnswer)
        // No line of ours is empty, so it does not matter whether the answer keeps the last line break of each.
        const lines = output.split('\n').filter((line) => line !== '')
        return compareLines(ledger.outputLines, lines)
      },
    },
  ]
  const wholeSeries = Map.groupBy([...ledger.points, ...ledger.systemPoints], (point) => point.metricName)
  for (const [metricName, points] of wholeSeries) {
    checks.push({
      what: `get-metric ${metricName}`,
      run: async () => {
        const read = await getMetric(metricName)
        pointsPerSeries.set(metricName, read.length)
        return comparePoints(points, read)
      },
    })
  }
  for (const [summaryName, points] of Map.groupBy(ledger.points, toSummaryName)) {
    const { metricName, context } = points[0] as Point
    checks.push(
      {
        what: `get-metric ${summaryName}`,
        run: async () => comparePoints(points, await getMetric(summaryName)),
      },
      {
        what: `get-metric ${metricName} with context=${context}`,
        run: async () => comparePoints(points, await getMetric(metricName, { context: context ?? '' })),
      },
      {
        what: `get-metric ${summaryName} with maxPoints=${MAX_POINTS}`,
        run: async () => compareThinned(points, await getMetric(summaryName, { maxPoints: MAX_POINTS }), MAX_POINTS),
      },
    )
  }

  const mismatches = await compareAll(checks, { signal })
  return {
    pointsRead: [...pointsPerSeries.values()].reduce((sum, count) => sum + count, 0),
    reads: checks.length,
    mismatches,
    durationMs: performance.now() - startedAt,
  }
}

/** Runs checks, a few at once, each until it finds no difference or none of them has come to that for `waitMsMax`. */
export async function compareAll(
  checks: Check[],
  { signal, waitMsMax = WAIT_MS_MAX, now = () => performance.now() }: Waiting,
): Promise<string[]> {
  const waiting = [...checks]
  const mismatches: string[] = []
  let agreedAt = now()
  async function differencesOf(check: Check): Promise<string[]> {
    for (let pauseMs = FIRST_PAUSE_MS; ; pauseMs = Math.min(PAUSE_MS_MAX, pauseMs * 1.5)) {
      const differences = await check.run()
      if (differences.length === 0) agreedAt = now()
      if (differences.length === 0 || now() + pauseMs > agreedAt + waitMsMax) return differences
      await sleep(pauseMs, undefined, { signal })
    }
  }
  await Promise.all(
    Array.from({ length: READS_AT_ONCE }, async () => {
      for (let check = waiting.shift(); check; check = waiting.shift()) {
        for (const difference of await differencesOf(check)) mismatches.push(`${check.what}: ${difference}`)
      }
    }),
  )
  return mismatches
}

/** Describes the differences between logged and read points: values bit for bit, and their number. */
export function comparePoints(logged: Point[], read: ReadPoint[]): string[] {
  const differences: string[] = []
  if (read.length !== logged.length) differences.push(`${logged.length} points logged, ${read.length} read back`)

  const valuesByPlace = Map.groupBy(read, placeOf)
  for (const point of logged) {
    const found = valuesByPlace.get(placeOf(point))?.shift()
    if (!found) differences.push(`${placeOf(point)}: logged ${point.metricValue}, not read back`)
    else if (!Object.is(toNumber(found.metricValue), point.metricValue)) {
      differences.push(`${placeOf(point)}: logged ${point.metricValue}, read back ${describe(found.metricValue)}`)
    }
  }
  for (const [place, left] of valuesByPlace) {
    for (const point of left) differences.push(`${place}: read back ${describe(point.metricValue)}, never logged`)
  }
  return shorten(differences)
}

/** The same for a series thinned to `maxPoints`: no invented points, lowest and highest value kept. */
export function compareThinned(logged: Point[], read: ReadPoint[], maxPoints: number): string[] {
  if (logged.length <= maxPoints) return comparePoints(logged, read)
  const differences: string[] = []
  if (read.length > maxPoints) differences.push(`${read.length} points read back`)

  const loggedByPlace = new Map(logged.map((point) => [placeOf(point), point.metricValue]))
  const values = read.map((point) => toNumber(point.metricValue))
  for (const [index, point] of read.entries()) {
    if (!Object.is(values[index], loggedByPlace.get(placeOf(point)))) {
      differences.push(`${placeOf(point)}: read back ${describe(point.metricValue)}, never logged`)
    }
  }
  const numbers = logged.map((point) => point.metricValue).filter((value) => !Number.isNaN(value))
  if (numbers.length > 0) {
    const [lowest, highest] = extremes(numbers)
    if (!values.includes(lowest)) differences.push(`the lowest value, ${lowest}, is missing`)
    if (!values.includes(highest)) differences.push(`the highest value, ${highest}, is missing`)
  }
  return shorten(differences)
}

function compareMetadata(ledger: Ledger, read: Record<string, unknown>): string[] {
  const expected: Record<string, unknown> = {
    experimentName: ledger.experimentName,
    workspaceName: ledger.workspaceName,
    projectName: ledger.projectName,
    startTimeMillis: ledger.startTimeMillis,
    endTimeMillis: ledger.endTimeMillis,
    archived: false,
    running: false,
  }
  const differences = Object.entries(expected)
    .filter(([field, value]) => read[field] !== value)
    .map(([field, value]) => `${field}: ${describe(value)} was set, read back ${describe(read[field])}`)
  if (read.throttle) differences.push(`the service throttled the experiment: ${read.throttleMessage}`)
  return differences
}

function compareMetricSummary(points: Point[], read: Summary): string[] {
  const differences: string[] = []
  const rows = new Map(read.values.map((row) => [row.name, row]))
  const series = Map.groupBy(points, toSummaryName)
  for (const [name, logged] of series) {
    const row = rows.get(name)
    if (!row) {
      differences.push(`${name} is missing`)
      continue
    }
    const values = logged.map((point) => point.metricValue)
    const expected: [string, number, unknown][] = [['valueCurrent', values.at(-1) as number, row.valueCurrent]]
    // The interface does not say whether NaN is the lowest number, the highest or neither.
    if (!values.some(Number.isNaN)) {
      const [lowest, highest] = extremes(values)
      expected.push(['valueMin', lowest, row.valueMin], ['valueMax', highest, row.valueMax])
    }
    for (const [field, value, found] of expected) {
      if (!Object.is(toNumber(found), value)) {
        differences.push(`${name}: ${field} should be ${value}, read back ${describe(found)}`)
      }
    }
  }
  for (const name of rows.keys()) {
    if (!series.has(name) && !name.startsWith('sys.')) differences.push(`${name} is there, but was never logged`)
  }
  return shorten(differences)
}

function compareValues(expected: Map<string, string | number>, read: Summary): string[] {
  const differences: string[] = []
  const rows = new Map(read.values.map((row) => [row.name, row.valueCurrent]))
  for (const [name, value] of expected) {
    const found = rows.get(name)
    const equal = typeof value === 'number' ? Object.is(toNumber(found), value) : found === value
    if (!equal) differences.push(`${name}: logged ${describe(value)}, read back ${describe(found)}`)
  }
  for (const name of rows.keys()) if (!expected.has(name)) differences.push(`${name} is there, but was never logged`)
  if (read.values.length !== rows.size) differences.push(`${read.values.length - rows.size} names appear twice`)
  return shorten(differences)
}

function compareLines(logged: string[], read: string[]): string[] {
  const differences: string[] = []
  if (logged.length !== read.length) differences.push(`${logged.length} lines logged, ${read.length} read back`)
  for (const [at, line] of logged.entries()) differences.push(...compareText(`line ${at + 1}`, line, read[at]))
  return shorten(differences)
}

function compareText(what: string, logged: string, read: string | undefined): string[] {
  return logged === read ? [] : [`${what}: logged ${describe(logged)}, read back ${describe(read)}`]
}

// Everything of a point but its value.
function placeOf(point: Point | ReadPoint): string {
  const context = ('runContext' in point ? point.runContext : 'context' in point ? point.context : null) || 'no context'
  return `${context}, step ${point.step ?? '-'}, epoch ${point.epoch ?? '-'}, at ${point.timestamp}`
}

// The service returns numbers as strings; anything else, and an empty string, is not a number.
function toNumber(value: unknown): number | undefined {
  if (typeof value !== 'string' || value.trim() === '') return undefined
  if (/^nan$/i.test(value)) return Number.NaN
  const infinity = /^([+-]?)inf(inity)?$/i.exec(value)
  if (infinity) return infinity[1] === '-' ? -Infinity : Infinity
  const number = Number(value)
  return Number.isNaN(number) ? undefined : number
}

// Not Math.min(...values): a long series would not fit into the arguments of a call.
function extremes(values: number[]): [lowest: number, highest: number] {
  let lowest = Infinity
  let highest = -Infinity
  for (const value of values) {
    if (value < lowest) lowest = value
    if (value > highest) highest = value
  }
  return [lowest, highest]
}

function describe(value: unknown): string {
  return value === undefined ? 'nothing' : JSON.stringify(value)
}

function shorten(differences: string[]): string[] {
  if (differences.length <= LISTED_MAX) return differences
  return [...differences.slice(0, LISTED_MAX), `... and ${differences.length - LISTED_MAX} more`]
}
