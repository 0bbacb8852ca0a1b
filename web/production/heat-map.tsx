import { type KeyboardEvent, type PointerEvent, useId, useRef, useState } from 'react'
import type { DriftMap } from '../api/monitoring.ts'
import { toCount } from '../kit/text.ts'
import { levelWords, sortByDrift, toLevel, toWindowLevel } from './drift-level.ts'
import styles from './heat-map.module.css'
import { Cells, Legend, Strip } from './strip.tsx'
import { toMeasure, toShare, toShort, toWindow } from './words.ts'

export type Cell = { feature: string; part: 'feature' | 'prediction'; at: number }

const rowHeight = 20

type Props = { map: DriftMap; chosen: Cell | undefined; onChoose(cell: Cell): void }

/** The verdict on each feature in each window. Arrow keys go from cell to cell, Enter looks at the feature then. */
export function HeatMap({ map, chosen, onChoose }: Props) {
  const features = sortByDrift(map.features)
  const { windows, interval } = map
  const frame = useRef<HTMLDivElement>(null)
  const hintId = useId()
  const [place, setPlace] = useState<{ x: number; y: number }>()
  const chosenRow = features.findIndex((it) => it.name === chosen?.feature && it.part === chosen.part)
  const chosenColumn = windows.findIndex((it) => it.from === chosen?.at)
  const shown = place && features[place.y] && windows[place.x] ? place : undefined
  const choose = (x: number, y: number) => {
    const it = features[y]
    const window = windows[x]
    if (it && window)
      onChoose({ feature: it.name, part: it.part === 'prediction' ? 'prediction' : 'feature', at: window.from })
  }
  function onKeyDown(event: KeyboardEvent) {
    const { x, y } = shown ?? { x: chosenColumn < 0 ? windows.length - 1 : chosenColumn, y: Math.max(0, chosenRow) }
    const moves: Record<string, [number, number]> = {
      ArrowLeft: [-1, 0],
      ArrowRight: [1, 0],
      ArrowUp: [0, -1],
      ArrowDown: [0, 1],
      Home: [-windows.length, 0],
      End: [windows.length, 0],
    }
    const move = moves[event.key]
    if (event.key === 'Enter' || event.key === ' ') choose(x, y)
    else if (!move) return
    else {
      const clamp = (it: number, most: number) => Math.min(Math.max(it, 0), most - 1)
      setPlace(shown ? { x: clamp(x + move[0], windows.length), y: clamp(y + move[1], features.length) } : { x, y })
    }
    event.preventDefault()
  }
  function toPlace(event: PointerEvent) {
    const box = (frame.current as HTMLDivElement).getBoundingClientRect()
    return {
      x: Math.floor(((event.clientX - box.left) / box.width) * windows.length),
      y: Math.floor(((event.clientY - box.top) / box.height) * features.length),
    }
  }
  const rows = features.map((it) => windows.map((_, at) => toLevel(it, at)))
  return (
    <div className={styles.map}>
      <div className={styles.grid}>
        <span className={styles.corner}>Model</span>
        <Strip
          label={`The verdict on the model in ${windows.length} windows: drifted in ${windows.filter((it) => it.drifted).length}`}
          levels={windows.map(toWindowLevel)}
        />
        <ol className={styles.names}>
          {features.map((it, y) => (
            <li key={`${it.part} ${it.name}`}>
              <button
                type="button"
                title={it.name}
                aria-current={y === chosenRow ? 'true' : undefined}
                onClick={() => choose(chosenColumn < 0 ? windows.length - 1 : chosenColumn, y)}
              >
                {it.name}
                {it.part !== 'feature' && <span className={styles.part}> {it.part}</span>}
              </button>
            </li>
          ))}
        </ol>
        <div
          ref={frame}
          role="application"
          aria-roledescription="heat map"
          aria-label={`Drift of ${features.length} features in ${windows.length} windows`}
          aria-describedby={hintId}
          // biome-ignore lint/a11y/noNoninteractiveTabindex: arrow keys go from cell to cell
          tabIndex={0}
          className={styles.cells}
          style={{ height: features.length * rowHeight }}
          onKeyDown={onKeyDown}
          onPointerMove={(event) => setPlace(toPlace(event))}
          onPointerLeave={() => setPlace(undefined)}
          onBlur={() => setPlace(undefined)}
          onClick={(event) => {
            const { x, y } = toPlace(event as unknown as PointerEvent)
            choose(x, y)
          }}
        >
          <svg aria-hidden="true" viewBox={`0 0 ${windows.length} ${features.length}`} preserveAspectRatio="none">
            {chosenRow >= 0 && <rect className={styles.chosen} x={0} y={chosenRow} width={windows.length} height={1} />}
            {chosenColumn >= 0 && (
              <rect className={styles.chosen} x={chosenColumn} y={0} width={1} height={features.length} />
            )}
            <Cells rows={rows} />
            {shown && <rect className={styles.under} x={shown.x} y={shown.y} width={1} height={1} />}
          </svg>
          {shown && <Tip map={map} feature={features[shown.y] as DriftMap['features'][number]} place={shown} />}
        </div>
        <span />
        <div className={styles.times} aria-hidden="true">
          <span>{toWindow(windows[0]?.from ?? 0, interval)}</span>
          <span>{toWindow(windows[Math.floor(windows.length / 2)]?.from ?? 0, interval)}</span>
          <span>{toWindow(windows.at(-1)?.from ?? 0, interval)}</span>
        </div>
      </div>
      <div className={styles.below}>
        <Legend of="feature" />
        <p id={hintId} className={styles.hint}>
          Arrow keys go from cell to cell, Enter looks at one.
        </p>
      </div>
    </div>
  )
}

function Tip({
  map: { windows, interval },
  feature,
  place: { x, y },
}: {
  map: DriftMap
  feature: DriftMap['features'][number]
  place: { x: number; y: number }
}) {
  const window = windows[x]
  const value = feature.value[x] ?? null
  const measure = feature.judgedBy[x]
  const isRight = x > windows.length / 2
  return (
    <div
      role="status"
      className={styles.tip}
      data-side={isRight ? 'left' : 'right'}
      style={{
        top: (y + 1) * rowHeight + 4,
        [isRight ? 'right' : 'left']: `${((isRight ? windows.length - x - 1 : x) / windows.length) * 100}%`,
      }}
    >
      <strong>{feature.name}</strong>
      <span>{window && toWindow(window.from, interval)}</span>
      <span>
        {levelWords[String(toLevel(feature, x))]}
        {measure && value !== null
          ? `: ${toMeasure(measure)} ${toShort(value)}`
          : ` (${feature.status[x] ?? 'not known then'})`}
      </span>
      <span>
        {toCount(window?.events ?? 0)} events, {toShare(feature.missingShare[x] ?? null)} missing
      </span>
    </div>
  )
}
