import { expect, test } from 'vitest'
import type { ReadPoint } from '../../../cli/demo/answers.ts'
import { type Point, toWireNumber } from '../../../cli/demo/ledger.ts'
import { compareAll, comparePoints, compareThinned } from '../../../cli/demo/read-back.ts'

function aPoint(overrides: Partial<Point> = {}): Point {
  return { metricName: 'loss', metricValue: 0.1, context: 'train', step: 3, epoch: 1, timestamp: 1700, ...overrides }
}

// The point as the service should answer it.
function toRead({ metricValue, context, ...place }: Point, value = String(toWireNumber(metricValue))): ReadPoint {
  return { ...place, metricValue: value, runContext: context }
}

const values = [0.1 + 0.2, -0, 5e-324, 1.7976931348623157e308, Number.NaN, Infinity, -Infinity]
const points = values.map((metricValue, index) => aPoint({ metricValue, step: index + 1 }))

test('numbers that JSON lacks travel as strings, all others as they are', () => {
  expect(values.map(toWireNumber)).toEqual([
    0.30000000000000004,
    '-0',
    5e-324,
    1.7976931348623157e308,
    'NaN',
    'Infinity',
    '-Infinity',
  ])
})

test('points that come back bit for bit agree, in whatever order', () => {
  expect(comparePoints(points, points.map((point) => toRead(point)).reverse())).toEqual([])
})

test('a value that is off by its last bit, or that lost its sign, is told', () => {
  expect(comparePoints([aPoint({ metricValue: 0.1 + 0.2 })], [toRead(aPoint(), '0.3')])).toEqual([
    'train, step 3, epoch 1, at 1700: logged 0.30000000000000004, read back "0.3"',
  ])
  expect(comparePoints([aPoint({ metricValue: -0 })], [toRead(aPoint(), '0')])).toHaveLength(1)
  expect(comparePoints([aPoint({ metricValue: Number.NaN })], [toRead(aPoint(), '')])).toHaveLength(1)
})

test('a point that is missing, doubled or made up is told, and so is a changed place', () => {
  const read = toRead(aPoint())
  expect(comparePoints([aPoint()], [])).toEqual([
    '1 points logged, 0 read back',
    'train, step 3, epoch 1, at 1700: logged 0.1, not read back',
  ])
  expect(comparePoints([aPoint()], [read, read])).toHaveLength(2)
  for (const changed of [{ step: 4 }, { epoch: 2 }, { timestamp: 1701 }, { runContext: 'validate' }]) {
    expect(comparePoints([aPoint()], [{ ...read, ...changed }])).toHaveLength(2)
  }
})

test('a thinned series may lack points, but neither its extremes nor the truth', () => {
  const logged = Array.from({ length: 100 }, (_, index) => aPoint({ metricValue: (index * 37) % 100, step: index }))
  const byValue = logged.toSorted((one, other) => one.metricValue - other.metricValue).map((point) => toRead(point))
  const thinned = [byValue[0], byValue[50], byValue[99]] as ReadPoint[]
  expect(compareThinned(logged, thinned, 10)).toEqual([])
  expect(compareThinned(logged, thinned.slice(1), 10)).toEqual(['the lowest value, 0, is missing'])
  expect(compareThinned(logged, thinned.slice(0, 2), 10)).toEqual(['the highest value, 99, is missing'])
  expect(compareThinned(logged, [...thinned, { ...byValue[7], metricValue: '7.5' } as ReadPoint], 10)).toHaveLength(1)
  expect(compareThinned(logged, byValue, 10)).toEqual(['100 points read back'])
  // A series that is short enough comes whole.
  expect(compareThinned(logged, thinned, 100)).not.toEqual([])
})

// Checks whose reads take a second of the clock each; `agreesAt` is the read that finds no difference.
function aSlowComparison(agreesAt: number[]) {
  let nowMs = 0
  const reads = agreesAt.map(() => 0)
  const checks = agreesAt.map((wanted, index) => ({
    what: `read ${index}`,
    run: async () => {
      nowMs += 1_000
      reads[index] = (reads[index] as number) + 1
      return (reads[index] as number) >= wanted ? [] : ['differs']
    },
  }))
  const compare = (waitMsMax: number) =>
    compareAll(checks, { signal: new AbortController().signal, waitMsMax, now: () => nowMs })
  return { compare, reads }
}

test('slow reads are repeated for as long as one after the other comes to agree', async () => {
  const { compare } = aSlowComparison([...Array(12).fill(1), 2])
  expect(await compare(5_000)).toEqual([])
})

test('what never agrees is told, once nothing else has come to agree for the time', async () => {
  const { compare, reads } = aSlowComparison([1, 1, Number.POSITIVE_INFINITY])
  expect(await compare(5_000)).toEqual(['read 2: differs'])
  expect(reads[2]).toBeGreaterThan(1)
})
