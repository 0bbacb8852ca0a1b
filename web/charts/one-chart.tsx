import { useLayoutEffect, useMemo, useRef, useState } from 'react'
import type { OneChartProps } from '../kit/charts-slot.ts'
import { ChartCard } from './chart-card.tsx'
import { parseChartState } from './chart-state.ts'
import styles from './one-chart.module.css'
import { useCopies } from './use-copies.ts'

/** What stands above and below the drawing in a card. */
const cardHeight = 64
const heightMin = 80

/** One chart as large as its place, such as a frame. */
export function OneChart(props: OneChartProps) {
  const { metric, runs, state: given, onState } = props
  const state = useMemo(() => parseChartState(given), [given])
  const place = useRef<HTMLDivElement>(null)
  const [height, setHeight] = useState<number>()
  const copies = useCopies(props)
  useLayoutEffect(() => {
    const watch = new ResizeObserver(([it]) => it && setHeight(Math.max(heightMin, it.contentRect.height - cardHeight)))
    if (place.current) watch.observe(place.current)
    return () => watch.disconnect()
  }, [])
  return (
    <div ref={place} className={styles.place}>
      {height !== undefined && (
        <ChartCard
          metric={metric}
          runs={runs}
          state={state}
          onState={onState}
          height={height}
          copies={copies}
          isAlone
        />
      )}
    </div>
  )
}
