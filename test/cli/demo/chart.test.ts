import { expect, test } from 'vitest'
import { type ChartFrame, type ChartSeries, renderChart } from '../../../cli/demo/chart.ts'

const ascii = { isUnicode: false, paint: (_: string, text: string) => text }
const unicode = { ...ascii, isUnicode: true }

// Two decades over 21 columns and 5 rows: a decade is 10 columns, half a decade is a row.
const frame: ChartFrame = { width: 21, height: 5, xLabel: 'step', yLabel: 'loss', x: [1, 100], y: [0.1, 10] }

function aSeries(points: [number, number][], overrides: Partial<ChartSeries> = {}): ChartSeries {
  return { name: 'a run', points: points.map(([x, y]) => ({ x, y })), mark: 'braille', colour: 'blue', ...overrides }
}

// The plot alone, to its full width: what stands right of the axis.
function plotOf(lines: string[]): string[] {
  return lines.slice(1, 1 + frame.height).map((line) => line.slice(5).padEnd(21))
}

test('known points stand at known places, joined up, with axes and legend', () => {
  const points: [number, number][] = [
    [1, 10],
    [10, 1],
    [100, 0.1],
  ]
  expect(renderChart([aSeries(points)], frame, ascii)).toEqual([
    '    loss',
    ' 10 +***',
    '    |   *****',
    '  1 +        *****',
    '    |             *****',
    '0.1 +                  ***',
    '    +---------------------',
    '     1         10     step',
    '     * a run',
  ])
})

test('a NaN is a gap in the line and a mark in a row of its own', () => {
  const points: [number, number][] = [
    [1, 1],
    [10 ** 0.4, 1],
    [10, Number.NaN],
    [10 ** 1.6, 1],
    [100, 1],
  ]
  const lines = renderChart([aSeries(points, { mark: 'x' })], frame, ascii)
  expect(plotOf(lines)[2]).toBe('xxxxx           xxxxx')
  expect(lines[6]).toBe('NaN +          x')
})

test('without a NaN there is no row for it', () => {
  expect(renderChart([aSeries([[1, 1]])], frame, ascii).some((line) => line.includes('NaN'))).toBe(false)
})

test('values above the top and Infinity are marked at the top edge, values below stand at the bottom', () => {
  const points: [number, number][] = [
    [1, 1e300],
    [10, Number.POSITIVE_INFINITY],
    [100, 0],
  ]
  const plot = plotOf(renderChart([aSeries(points, { mark: 'x' })], frame, ascii))
  expect([plot[0]?.[0], plot[0]?.[10]]).toEqual(['^', '^'])
  expect(plot[0]?.slice(1, 10)).toBe('x'.repeat(9))
  expect(plot[4]?.[20]).toBe('x')
})

test('one column shows the mean of its points', () => {
  const plot = plotOf(renderChart([aSeries([10, 10].map((x, index) => [x, index === 0 ? 0.5 : 1.5]))], frame, ascii))
  expect(plot).toEqual(['', '', '          *', '', ''].map((row) => row.padEnd(21)))
})

test('braille places a point within its character: two dots wide, four high', () => {
  // The lowest left dot, then the highest right one.
  const corners = renderChart([aSeries([[1, 0.1]]), aSeries([[100, 10]])], frame, unicode)
  expect(plotOf(corners)[4]?.[0]).toBe('⡀')
  expect(plotOf(corners)[0]?.[20]).toBe('⠈')
})

test('a later series lies over an earlier one, and each keeps its colour', () => {
  const paint = (colour: string, text: string) => `<${colour}:${text}>`
  const flat: [number, number][] = [
    [1, 1],
    [100, 1],
  ]
  const above = aSeries(
    [
      [1, 1],
      [10, 1],
    ],
    { mark: 'x', colour: 'red', name: 'another' },
  )
  const lines = renderChart([aSeries(flat), above], frame, { isUnicode: false, paint })
  expect(lines[3]).toBe(`  1 +<red:${'x'.repeat(11)}><blue:${'*'.repeat(10)}>`)
  expect(lines.at(-1)).toBe('     <blue:*> a run    <red:x> another')
})
