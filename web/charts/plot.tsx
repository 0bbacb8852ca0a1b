import { type Dispatch, type SetStateAction, useEffect, useLayoutEffect, useRef, useState } from 'react'
import uPlot from 'uplot'
import 'uplot/dist/uPlot.min.css'
import { toRunColour } from '../kit/run-colour.ts'
import { toDuration, toNumber, toTime } from '../kit/text.ts'
import { resolveColour, useIsDark } from '../kit/theme.ts'
import { drawLines } from './draw-lines.ts'
import type { Line } from './line.ts'
import styles from './plot.module.css'
import { type CursorPlace, Tooltip } from './tooltip.tsx'
import { toYRange } from './y-range.ts'

type Props = {
  lines: Line[]
  /** What is on the x axis: decides how its numbers are written. */
  x: 'step' | 'time' | 'relative' | 'epoch' | 'metric'
  /** How values of y are written. */
  toY(value: number): string
  logX: boolean
  logY: boolean
  cutsOutliers: boolean
  isSmoothed: boolean
  /** The range that is shown; the whole of the lines when absent. */
  zoom: [number, number] | undefined
  onZoom(zoom: [number, number] | undefined): void
  /** What the chart shows, for screen readers. */
  label: string
  height: number
  /** Gives the drawn canvas away, for an image of it. */
  onCanvas?(canvas: HTMLCanvasElement): void
}

/** All charts of a page show the cursor at the same x. */
const sync = 'charts'
const zoomPixelsMin = 4
/** What may be between two ticks of y. Those of uPlot end at 10^16, and a loss that diverges does not. */
const yIncrements = Array.from({ length: 340 }, (_, at) => at - 32).flatMap((exponent) =>
  [1, 2, 2.5, 5].map((it) => Number(`${it}e${exponent}`)),
)

/** A line chart. Drag to zoom, double-click to see all again. It draws when something changes, and never by itself. */
export function Plot(props: Props) {
  const { lines, x, logX, logY, height, label } = props
  const frame = useRef<HTMLDivElement>(null)
  const plot = useRef<uPlot>(undefined)
  const latest = useRef(props)
  latest.current = props
  const isDark = useIsDark()
  const [cursor, setCursor] = useState<CursorPlace>()

  // biome-ignore lint/correctness/useExhaustiveDependencies: lines and zoom are read when it draws
  useLayoutEffect(() => {
    const place = frame.current as HTMLDivElement
    const u = new uPlot(toOptions(place, latest, isDark, setCursor), toExtent(latest.current), place)
    plot.current = u
    latest.current.onCanvas?.(u.ctx.canvas)
    const watch = new ResizeObserver(() => {
      const width = Math.floor(place.clientWidth)
      if (width > 0 && (width !== u.width || height !== u.height)) u.setSize({ width, height })
    })
    watch.observe(place)
    return () => {
      watch.disconnect()
      u.destroy()
      plot.current = undefined
    }
  }, [x, logX, logY, height, isDark])

  // biome-ignore lint/correctness/useExhaustiveDependencies: these are what is drawn
  useEffect(
    () => plot.current?.setData(toExtent(latest.current)),
    [lines, props.zoom, props.cutsOutliers, props.isSmoothed],
  )

  return (
    <div className={styles.plot} style={{ height }}>
      <div ref={frame} role="img" aria-label={label} className={styles.canvas} />
      {cursor && (
        <Tooltip lines={lines} at={cursor} toX={(it) => toXText(x, it)} isSmoothed={props.isSmoothed} toY={props.toY} />
      )}
    </div>
  )
}

/** The corners of what is shown; the lines themselves are drawn by `drawLines`, which needs no common x. */
function toExtent({ lines, zoom }: Props): uPlot.AlignedData {
  let [from, to] = zoom ?? [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY]
  if (!zoom) {
    for (const it of lines) {
      from = Math.min(from, it.x[0] ?? from)
      to = Math.max(to, it.xTo.at(-1) ?? to)
    }
  }
  if (from > to) [from, to] = [0, 1]
  if (from === to) [from, to] = [from - 0.5, to + 0.5]
  return [
    [from, to],
    [0, 1],
  ]
}

function toOptions(
  place: HTMLElement,
  latest: { current: Props },
  isDark: boolean,
  setCursor: Dispatch<SetStateAction<CursorPlace | undefined>>,
): uPlot.Options {
  const { x, logX, logY, height } = latest.current
  const faint = resolveColour('--text-faint')
  const line = resolveColour('--line')
  const axis = { stroke: faint, font: `11px ${getComputedStyle(place).fontFamily}`, ticks: { stroke: line, size: 4 } }
  return {
    width: Math.max(80, Math.floor(place.clientWidth)),
    height,
    legend: { show: false },
    padding: [8, 24, 0, 0],
    cursor: {
      sync: { key: sync, scales: ['x', null] },
      drag: { x: true, y: false, setScale: false },
      points: { show: false },
      bind: {
        dblclick: () => () => {
          latest.current.onZoom(undefined)
          return null
        },
      },
    },
    scales: {
      x: {
        time: x === 'time',
        distr: logX && x !== 'time' ? 3 : 1,
        range: (_, from, to) => (logX && x !== 'time' ? [Math.max(from, 1), Math.max(to, 2)] : [from, to]),
      },
      y: {
        distr: logY ? 3 : 1,
        range: (u) => {
          const [xs] = toExtent(latest.current)
          const [from, to] = [xs?.[0] ?? u.scales.x?.min ?? 0, xs?.[1] ?? u.scales.x?.max ?? 1]
          const { lines, cutsOutliers } = latest.current
          return toYRange(lines, { from, to, isLog: logY, cutsOutliers }) ?? (logY ? [1, 10] : [0, 1])
        },
      },
    },
    // Times are milliseconds; uPlot's own are seconds.
    ms: 1,
    axes: [
      { ...axis, size: 28, grid: { show: false }, space: 64, ...(x !== 'time' && { values: toXTicks(x) }) },
      {
        ...axis,
        size: (_, values) => Math.max(36, 14 + 6.2 * Math.max(0, ...(values ?? []).map((it) => (it ?? '').length))),
        grid: { stroke: line, width: 1 },
        space: 32,
        incrs: yIncrements,
        values: (_, splits) => splits.map((it) => (it === null ? '' : latest.current.toY(it))),
      },
    ],
    series: [{}, { show: true, paths: () => null, points: { show: false } }],
    hooks: {
      draw: [
        (u) => {
          const { lines, isSmoothed } = latest.current
          drawLines(u, lines, {
            toColour: (key) => toRunColour(key, isDark),
            highlighted: undefined,
            isSmoothed,
            badColour: resolveColour('--bad'),
            backgroundColour: resolveColour('--page'),
          })
        },
      ],
      setSelect: [
        (u) => {
          const { left, width } = u.select
          if (width < zoomPixelsMin) return
          latest.current.onZoom([u.posToVal(left, 'x'), u.posToVal(left + width, 'x')])
          u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false)
        },
      ],
      // Not uPlot's own hook for the cursor: that one is called for every chart, and whenever data comes.
      ready: [
        (u) => {
          u.over.addEventListener('pointerleave', () => setCursor(undefined))
          u.over.addEventListener('pointermove', ({ clientX, clientY }) => setCursor(toPlace(u, clientX, clientY)))
        },
      ],
      // Another x is under a mouse that rests.
      setScale: [(u, scale) => scale === 'x' && setCursor((at) => at && toPlace(u, at.left, at.top))],
    },
  }
}

/** What is at a place in the window. */
function toPlace(u: uPlot, clientX: number, clientY: number): CursorPlace {
  const left = clientX - u.over.getBoundingClientRect().left
  const x = u.posToVal(left, 'x')
  return { x, reach: u.posToVal(left + 1, 'x') - x, left: clientX, top: clientY }
}

/** A machine may be watched before its run begins. */
const toSinceStart = (seconds: number) => (seconds < 0 ? `−${toDuration(-seconds * 1000)}` : toDuration(seconds * 1000))

function toXTicks(x: Props['x']): uPlot.Axis.Values {
  return (_, splits) => splits.map((it) => (it === null ? '' : x === 'relative' ? toSinceStart(it) : toNumber(it)))
}

function toXText(x: Props['x'], value: number): string {
  if (x === 'time') return toTime(value)
  if (x === 'relative') return toSinceStart(value)
  return x === 'metric' ? toNumber(value) : `${x} ${toNumber(value)}`
}
