import * as vega from 'vega'
import { compile, type TopLevelSpec } from 'vega-lite'
import { median } from './report.ts'
import type { Kept } from './results.ts'

export type GrowthPoint = { at: number; pointsPerSecond: number[]; p99Ms: number[] }

export type Growth = { name: string; axis: string; title: string; points: GrowthPoint[] }

const width = 640
const height = 200
const colours = { rate: '#1b6ca8', wait: '#b8452f' }

/**
 * Two charts over the same axis: points per second above, the 99th percentile below; each with the median and the range of
 * the rounds.
 */
export async function drawGrowth({ results, machine, at, options }: Kept<Growth>): Promise<string> {
  const { rounds, seconds, fsync, queue } = options as Record<string, string>
  const ticks = results.points.map((it) => it.at)
  const edge = ((ticks.at(-1) as number) / (ticks[0] as number)) ** 0.05
  const x = {
    field: 'at',
    type: 'quantitative',
    // Margins on both sides, so that no label overlaps an axis.
    scale: { type: 'log', nice: false, domain: [(ticks[0] as number) / edge, (ticks.at(-1) as number) * edge] },
    axis: { values: ticks, format: ',', labelOverlap: false, grid: true },
  } as const
  const how = queue === 'redis' ? `Redis appendfsync ${fsync}` : 'queue in Postgres'
  const panel = (field: 'pointsPerSecond' | 'p99Ms', title: string, colour: string, isLast: boolean) => {
    const values = results.points.map((it) => ({
      at: it.at,
      median: median(it[field]),
      least: Math.min(...it[field]),
      greatest: Math.max(...it[field]),
    }))
    const all = values.flatMap((it) => [it.least, it.greatest])
    // A range of more than a decade is easier to read on a log scale.
    const isLog = Math.max(...all) > 12 * Math.min(...all)
    const scale = isLog
      ? ({
          type: 'log',
          domain: [10 ** Math.floor(Math.log10(Math.min(...all))), roundUp(Math.max(...all) * 1.6)],
        } as const)
      : ({ zero: true, nice: true, domainMax: Math.max(...all) * 1.15 } as const)
    const axis = { title, ...(isLog ? { format: '~s', values: logTicks } : { format: '~s', tickCount: 5 }) }
    return {
      width,
      height,
      data: { values },
      encoding: { x: { ...x, title: isLast ? results.axis : null } },
      layer: [
        {
          mark: { type: 'rule', color: colour, opacity: 0.45, strokeWidth: 4 },
          encoding: {
            y: { field: 'least', type: 'quantitative', scale, axis },
            y2: { field: 'greatest' },
          },
        },
        {
          mark: { type: 'line', color: colour, strokeWidth: 2, point: { filled: true, color: colour, size: 45 } },
          encoding: { y: { field: 'median', type: 'quantitative', scale, axis } },
        },
        {
          mark: { type: 'text', dy: -11, fontSize: 11, color: '#333' },
          encoding: {
            y: { field: 'greatest', type: 'quantitative', scale, axis },
            text: { field: 'median', type: 'quantitative', format: field === 'p99Ms' ? ',.3~r' : ',.3~s' },
          },
        },
      ],
    }
  }
  const specification = {
    background: 'white',
    padding: 12,
    title: {
      text: results.title,
      subtitle: [`${machine}; ${how}`, `${rounds} rounds of ${seconds} s, medians and ranges; ${at.slice(0, 10)}`],
      anchor: 'start',
      fontSize: 15,
      subtitleFontSize: 11,
      subtitleColor: '#555',
    },
    spacing: 18,
    vconcat: [
      panel('pointsPerSecond', 'points stored per second', colours.rate, false),
      panel('p99Ms', 'p99 of the requests, ms', colours.wait, true),
    ],
    config: {
      font: 'Helvetica, Arial, sans-serif',
      view: { stroke: '#ddd' },
      axis: { gridColor: '#eee', labelFontSize: 11, titleFontSize: 12, titlePadding: 10 },
    },
  } as TopLevelSpec
  const view = new vega.View(vega.parse(compile(specification).spec), { renderer: 'none' })
  const svg = await view.toSVG()
  view.finalize()
  return `${svg}\n`
}

const logTicks = Array.from({ length: 8 }, (_, decade) => [1, 2, 5].map((it) => it * 10 ** decade)).flat()

function roundUp(value: number): number {
  return logTicks.find((it) => it >= value) ?? value
}
