import { type KeyboardEvent, useId, useState } from 'react'
import { toNumber } from '../kit/text.ts'
import styles from './time-chart.module.css'
import { toWindow } from './words.ts'

export type Series = {
  name: string
  values: (number | null)[]
  /** Which of the looks a line has; told apart by dashes, too. */
  look: 'first' | 'second' | 'third' | 'faint'
  toText?(value: number): string
}

type Props = {
  /** What it shows, for the heading and for screen readers. */
  title: string
  windows: { from: number }[]
  intervalMs: number
  series: Series[]
  /** Values that stay the same: a threshold, or that of the reference. */
  lines?: { name: string; value: number }[]
  /** Windows to mark, such as those in which a rule fired. */
  marked?: boolean[]
  /** The least range of the axis. */
  range?: [least: number, most: number]
  height?: number
  /** As high as its place. */
  isFilling?: boolean
}

const width = 600

/** Lines over windows of time. Arrow keys or the pointer tell the values of a window. */
export function TimeChart(props: Props) {
  const { title, windows, intervalMs, series, lines = [], marked, range, height = 120, isFilling } = props
  const [at, setAt] = useState<number>()
  const id = useId()
  const numbers = [
    ...series.flatMap((it) => it.values.filter((value) => value !== null)),
    ...lines.map((it) => it.value),
    ...(range ?? []),
  ]
  const [least, most] = [Math.min(...numbers), Math.max(...numbers)]
  const isEmpty = series.every((it) => it.values.every((value) => value === null))
  const span = most - least || 1
  const toX = (it: number) => ((it + 0.5) / Math.max(1, windows.length)) * width
  const toY = (value: number) => height - 6 - ((value - least) / span) * (height - 12)
  function onKeyDown(event: KeyboardEvent) {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key]
    if (by === undefined) return
    event.preventDefault()
    setAt(Math.min(Math.max((at ?? windows.length) + by, 0), windows.length - 1))
  }
  const shown = at !== undefined && windows[at] ? at : undefined
  const toText = (it: Series, value: number | null | undefined) =>
    value === null || value === undefined ? '–' : (it.toText ?? toShortNumber)(value)
  return (
    <figure className={styles.chart} data-fill={isFilling || undefined}>
      <figcaption id={id}>
        {title}
        <ul className={styles.legend}>
          {series.map((it) => (
            <li key={it.name} data-look={it.look}>
              <svg aria-hidden="true" viewBox="0 0 18 6">
                <path d="M0 3H18" />
              </svg>
              {it.name}
            </li>
          ))}
          {lines.map((it) => (
            <li key={it.name} data-look="line">
              <svg aria-hidden="true" viewBox="0 0 18 6">
                <path d="M0 3H18" />
              </svg>
              {it.name}
            </li>
          ))}
        </ul>
      </figcaption>
      {isEmpty ? (
        <p className={styles.empty}>Nothing in this time.</p>
      ) : (
        <div className={styles.body}>
          <div className={styles.axis} aria-hidden="true">
            <span>{toText(series[0] as Series, most)}</span>
            <span>{toText(series[0] as Series, least)}</span>
          </div>
          <div
            role="application"
            aria-roledescription="chart"
            aria-labelledby={id}
            // biome-ignore lint/a11y/noNoninteractiveTabindex: arrow keys tell the values
            tabIndex={0}
            className={styles.plot}
            onKeyDown={onKeyDown}
            onPointerMove={(event) => {
              const box = event.currentTarget.getBoundingClientRect()
              setAt(Math.floor(((event.clientX - box.left) / box.width) * windows.length))
            }}
            onPointerLeave={() => setAt(undefined)}
            onBlur={() => setAt(undefined)}
          >
            <svg
              aria-hidden="true"
              viewBox={`0 0 ${width} ${height}`}
              preserveAspectRatio="none"
              style={isFilling ? undefined : { height }}
            >
              {marked && <path className={styles.mark} d={toMarks(marked, width / windows.length, height)} />}
              {lines.map((it) => (
                <path key={it.name} data-look="line" d={`M0 ${toY(it.value)}H${width}`} />
              ))}
              {series.map((it) => (
                <path key={it.name} data-look={it.look} d={toPath(it.values, toX, toY)} />
              ))}
              {shown !== undefined && <path className={styles.cursor} d={`M${toX(shown)} 0V${height}`} />}
            </svg>
            {shown !== undefined && (
              <div
                role="status"
                className={styles.tip}
                style={
                  shown < windows.length / 2
                    ? { left: `${((shown + 1) / windows.length) * 100}%` }
                    : { right: `${(1 - shown / windows.length) * 100}%` }
                }
              >
                <strong>{toWindow(windows[shown]?.from ?? 0, intervalMs)}</strong>
                {series.map((it) => (
                  <span key={it.name}>{`${it.name} ${toText(it, it.values[shown])}`}</span>
                ))}
                {marked?.[shown] && <span>fires</span>}
              </div>
            )}
          </div>
          <span />
          <div className={styles.times} aria-hidden="true">
            <span>{toWindow(windows[0]?.from ?? 0, intervalMs)}</span>
            <span>{toWindow(windows.at(-1)?.from ?? 0, intervalMs)}</span>
          </div>
        </div>
      )}
    </figure>
  )
}

const toShortNumber = (value: number) => toNumber(Number(value.toPrecision(3)))

/** Neighbours are one area, or else their edges would show. */
function toMarks(marked: boolean[], each: number, height: number): string {
  let d = ''
  for (let at = 0; at < marked.length; at++) {
    if (!marked[at]) continue
    const end = marked.indexOf(false, at)
    const count = (end < 0 ? marked.length : end) - at
    d += `M${(at * each).toFixed(1)} 0h${(count * each).toFixed(1)}v${height}h-${(count * each).toFixed(1)}z`
    at += count - 1
  }
  return d
}

/** A line with gaps where nothing is known; a value between two gaps is a dash. */
function toPath(values: (number | null)[], toX: (at: number) => number, toY: (value: number) => number): string {
  let d = ''
  for (const [at, value] of values.entries()) {
    if (value === null || value === undefined) continue
    const before = values[at - 1]
    const isFirst = before === null || before === undefined
    d += `${isFirst ? 'M' : 'L'}${toX(at).toFixed(1)} ${toY(value).toFixed(1)}`
    if (isFirst && values[at + 1] == null) d += 'h1'
  }
  return d
}
