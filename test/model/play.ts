import { deepStrictEqual, fail, ok } from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseExactJson } from '../../http/body/exact-json.ts'
import { maxBigInt, minBigInt } from '../../runtime/bigint.ts'
import { eventually } from '../kit/eventually.ts'
import type { TestClient } from '../kit/http/client.ts'
import { createModel, maxima, minima, newest, type Seen, type Stored, toBuckets } from './model.ts'
import { type Line, type Point, type Request, toRequests, toText } from './requests.ts'
import type { Sequence } from './sequence.ts'

const write = '/write/experiment'
/** Far longer than storing an acknowledged point takes, even on a busy machine. */
const storedWithinMs = 20_000
/** Fifty sequences polling without a pause would be most of the load. */
const askAgainAfterMs = 200
const pointsMax = 10
const endMetric = 'the end'

/**
 * Plays a sequence on its own experiment and compares every read with the model.
 *
 * @throws AssertionError with the difference
 */
export async function playSequence(client: TestClient, sequence: Sequence): Promise<void> {
  // A service that has just started may reject so many at once.
  const experimentKey = await eventually(() => client.createExperiment())
  const model = createModel()

  async function send(request: Request) {
    const body = { experimentKey, ...request.fields }
    const headers: Record<string, string> = request.key === undefined ? {} : { 'idempotency-key': request.key }
    const sentMs = Date.now()
    const answer = await client.post(`${write}/${request.call}`, body, { headers })
    deepStrictEqual(answer.status, 200, `${request.call} answered ${answer.text}`)
    if (request.call === 'metrics/batch') deepStrictEqual(answer.body.accepted, request.points.length, answer.text)
    model.add(request, sentMs, Date.now())
  }

  for (const group of toRequests(sequence)) {
    await Promise.all(group.flatMap((request) => Array.from({ length: request.times }, () => send(request))))
  }
  // Once this point is stored, nearly everything before it is: late duplicates would show.
  await client.post(`${write}/metric`, { experimentKey, metricName: endMetric, metricValue: 1 })
  await sleep(askAgainAfterMs)
  await waitUntilStored(async () => ok((await client.readMetric(experimentKey, endMetric)).length > 0))

  const points = await comparePoints(client, experimentKey, model.points())
  // The view that summaries are read from follows the points within a moment, not at once.
  await waitUntilStored(() => compareSummary(client, experimentKey, points))
  await compareThinned(client, experimentKey, points, model.points())
  await compareOutput(client, experimentKey, model.lines())
}

const waitUntilStored = <T>(attempt: () => Promise<T>) => eventually(attempt, storedWithinMs, askAgainAfterMs)

type ReadPoint = Record<'timestamp' | 'step' | 'epoch', number | bigint | null> & {
  metricName: string
  metricValue: string
  runContext: string | null
}

async function readJson(client: TestClient, path: string, query: Record<string, string>): Promise<never> {
  const answer = await client.get(`${path}?${new URLSearchParams(query)}`)
  deepStrictEqual(answer.status, 200, `${path} answered ${answer.text}`)
  return parseExactJson(answer.text) as never
}

const toBigInt = (value: number | bigint | null) => (value === null ? undefined : BigInt(value))

function toPoint(it: ReadPoint): Point & { timestamp: bigint } {
  return {
    metric: it.metricName,
    context: it.runContext ?? '',
    value: Number(it.metricValue),
    step: toBigInt(it.step),
    epoch: toBigInt(it.epoch),
    timestamp: BigInt(it.timestamp as number),
  }
}

async function readSeries(
  client: TestClient,
  query: Record<string, string>,
): Promise<(Point & { timestamp: bigint })[]> {
  const { metrics } = (await readJson(client, '/experiment/metrics/get-metric', query)) as { metrics: ReadPoint[] }
  return metrics.map(toPoint)
}

/** All of a point but its time. */
const toContent = (it: Point) =>
  JSON.stringify([it.metric, it.context, toText(it.value), it.step, it.epoch].map(String))

async function comparePoints(client: TestClient, experimentKey: string, expected: Stored<Point>[]): Promise<Seen[]> {
  const seen: Seen[] = []
  for (const [metricName, stored] of Map.groupBy(expected, (it) => it.thing.metric)) {
    const names = new Set([metricName, ...stored.map((it) => toName(it.thing))])
    for (const name of names) {
      const named = expected.filter(({ thing }) => thing.metric === name || toName(thing) === name)
      const read = await readWhole(client, { experimentKey, metricName: name }, named.length)
      const matched = match(read, named)
      if (name === metricName) seen.push(...matched.filter((it) => it.metric === metricName))
    }
    const { context } = (stored[0] as Stored<Point>).thing
    const inContext = stored.filter((it) => it.thing.context === context)
    if (context !== '')
      match(await readWhole(client, { experimentKey, metricName, context }, inContext.length), inContext)
  }
  return seen
}

const toName = (it: { metric: string; context: string }) =>
  it.context === '' ? it.metric : `${it.context}_${it.metric}`

/** Waits for missing points, and returns all points there are. */
async function readWhole(client: TestClient, query: Record<string, string>, count: number) {
  let read = await readSeries(client, query)
  if (read.length < count) {
    await waitUntilStored(async () => {
      read = await readSeries(client, query)
      if (read.length < count) fail(`${query.metricName}: ${read.length} of ${count} points are there`)
    })
  }
  return read
}

/** Matches points read with points sent, one to one, and returns them with the bounds of their times. */
function match(read: (Point & { timestamp: bigint })[], expected: Stored<Point>[]): Seen[] {
  deepStrictEqual(read.map(toContent).toSorted(), expected.map((it) => toContent(it.thing)).toSorted())
  expectOrder(read)
  const seen: Seen[] = []
  const readByContent = Map.groupBy(read, toContent)
  for (const [content, alike] of Map.groupBy(expected, (it) => toContent(it.thing))) {
    const times = (readByContent.get(content) ?? []).map((it) => it.timestamp)
    const { metric, context, value, step } = (alike[0] as Stored<Point>).thing
    const see = (earliest: bigint, latest: bigint) => seen.push({ metric, context, value, step, earliest, latest })
    for (const { thing } of alike) {
      if (thing.timestamp === undefined) continue
      const at = times.indexOf(thing.timestamp)
      ok(at >= 0, `${content} has lost its timestamp ${thing.timestamp}: ${times}`)
      times.splice(at, 1)
      see(thing.timestamp, thing.timestamp)
    }
    const received = alike.filter((it) => it.thing.timestamp === undefined)
    const repeated = received.filter((it) => it.isRepeated)
    for (const time of times) {
      const isPossible = received.some((it) => it.firstSentMs <= time && time <= it.lastAnsweredMs)
      ok(isPossible, `${content} has the time ${time}, when it was not received`)
      if (repeated.length === 0) see(time, time)
      else see(least(received.map((it) => it.firstSentMs)), greatest(received.map((it) => it.lastAnsweredMs)))
    }
  }
  return seen
}

const least = (values: bigint[]) => values.reduce(minBigInt)
const greatest = (values: bigint[]) => values.reduce(maxBigInt)

/** By context, then step, then time; an absent step stands where 0 would. */
function expectOrder(points: (Point & { timestamp: bigint })[]) {
  const isAfter = (a: Point & { timestamp: bigint }, b: Point & { timestamp: bigint }) => {
    if (a.context !== b.context) return a.context > b.context
    const [stepA, stepB] = [a.step ?? 0n, b.step ?? 0n]
    return stepA === stepB ? a.timestamp > b.timestamp : stepA > stepB
  }
  points.slice(1).forEach((it, before) => {
    ok(!isAfter(points[before] as Point & { timestamp: bigint }, it), `point ${before + 1} is out of order`)
  })
}

async function compareSummary(client: TestClient, experimentKey: string, points: Seen[]) {
  type Entry = Record<string, string | number | bigint | null>
  const { values } = (await readJson(client, '/experiment/metrics/summary', { experimentKey })) as { values: Entry[] }
  const series = [...Map.groupBy(points, (it) => JSON.stringify([toName(it), it.context])).entries()]
  const shown = values.filter((it) => it.name !== endMetric)
  const names = shown.map((it) => JSON.stringify([it.name, it.runContextMin ?? '']))
  deepStrictEqual(names.toSorted(), series.map(([name]) => name).toSorted())
  for (const [name, ofSeries] of series) {
    const entry = shown[names.indexOf(name)] as Entry
    const parts = { Min: minima(ofSeries), Max: maxima(ofSeries), Current: newest(ofSeries) }
    for (const [part, possible] of Object.entries(parts)) {
      const [value, step, time] = [
        entry[`value${part}`],
        entry[`step${part}`],
        BigInt(entry[`timestamp${part}`] as number),
      ]
      const isPossible = possible.some(
        (it) =>
          toText(it.value) === toText(Number(value)) &&
          String(it.step ?? null) === String(step) &&
          it.earliest <= time &&
          time <= it.latest,
      )
      ok(isPossible, `${name} ${part} is ${value} at step ${step} and time ${time}, not one of ${describe(possible)}`)
    }
  }
}

function describe(points: Seen[]): string {
  return points.map((it) => `${toText(it.value)} at step ${it.step} and time ${it.earliest} to ${it.latest}`).join(', ')
}

/** Buckets keep their smallest and largest value, a NaN if there is one, and nothing else. */
async function compareThinned(client: TestClient, experimentKey: string, points: Seen[], stored: Stored<Point>[]) {
  const query = { experimentKey, maxPoints: String(pointsMax) }
  for (const [metricName, ofMetric] of Map.groupBy(points, (it) => it.metric)) {
    const thinned = await readSeries(client, { ...query, metricName })
    if (ofMetric.length <= pointsMax) {
      deepStrictEqual(thinned.length, ofMetric.length, `${metricName} is short and does not come whole with maxPoints`)
      continue
    }
    ok(thinned.length <= pointsMax, `${metricName} comes as ${thinned.length} points with maxPoints ${pointsMax}`)
    expectOrder(thinned)
    // Where a time is not known for sure, neither is its bucket.
    const isSure = !stored.some((it) => it.isRepeated && it.thing.timestamp === undefined)
    if (isSure) deepStrictEqual(toValues(thinned), toKeptValues(toBuckets(ofMetric, pointsMax)), metricName)
  }
}

const toValues = (points: Pick<Point, 'value' | 'context'>[]) =>
  [...new Set(points.map((it) => `${it.context} ${it.value}`))].toSorted()

function toKeptValues(buckets: Seen[][]): string[] {
  const kept = buckets.flatMap((bucket) => [
    ...minima(bucket).slice(0, 1),
    ...maxima(bucket).slice(0, 1),
    ...bucket.filter((it) => Number.isNaN(it.value)).slice(0, 1),
  ])
  return toValues(kept)
}

async function compareOutput(client: TestClient, experimentKey: string, expected: Stored<Line>[]) {
  const count = expected.length
  let output = ''
  await waitUntilStored(async () => {
    output = ((await readJson(client, '/experiment/output', { experimentKey })) as { output: string }).output
    const lines = output.match(/^line /gm)?.length ?? 0
    if (lines < count) fail(`${lines} of ${count} lines of output are there`)
  })
  // Lines are unique, except for repeats without a key.
  const byText = Map.groupBy(expected, (it) => it.thing.text.trimEnd())
  const read = output === '' ? [] : output.replace(/\n$/, '').split('\n')
  const lines = read.map((text) => byText.get(text)?.shift() ?? fail(`"${text}" was not sent, or not so often`))
  deepStrictEqual(lines.length, count, 'lines of output')
  deepStrictEqual(output, lines.map((it) => it.thing.text).join(''), 'the output')
  lines.slice(1).forEach((it, before) => {
    const [a, b] = [lines[before] as Stored<Line>, it]
    const [offsetA, offsetB] = [a.thing.offset ?? 0n, b.thing.offset ?? 0n]
    const isLater = (a.thing.timestamp ?? a.firstSentMs) > (b.thing.timestamp ?? b.lastAnsweredMs)
    const isSameTime = a.thing.timestamp !== undefined && a.thing.timestamp === b.thing.timestamp
    ok(!(isLater || (isSameTime && offsetA > offsetB)), `line ${before + 1} is out of order: ${read}`)
  })
}
