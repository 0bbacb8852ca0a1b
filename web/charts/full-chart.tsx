import { useEffect, useRef, useState } from 'react'
import type { ShownRun } from '../kit/run-colour.ts'
import { ChartCard, toTitle } from './chart-card.tsx'
import type { ChartState } from './chart-state.ts'
import styles from './full-chart.module.css'
import type { Copies } from './use-copies.ts'
import type { Metric } from './use-lines.ts'

type Props = {
  metric: Metric
  runs: ShownRun[]
  state: ChartState
  onState(change: Partial<ChartState>): void
  copies: Copies
}

const frameHeight = 80

/** One chart over the whole window. It is in the URL, so a link leads to it; Escape closes it. */
export function FullChart({ metric, runs, state, onState, copies }: Props) {
  const frame = useRef<HTMLDialogElement>(null)
  const [height, setHeight] = useState(innerHeight - frameHeight)
  const close = useRef(() => {})
  close.current = () => onState({ full: undefined })
  useEffect(() => {
    // Of the whole page: for a moment after a menu was closed nothing has the focus. A menu that is open takes the key for itself.
    const onKey = (event: KeyboardEvent) => event.key === 'Escape' && !event.defaultPrevented && close.current()
    addEventListener('keydown', onKey)
    return () => removeEventListener('keydown', onKey)
  }, [])
  useEffect(() => {
    const before = document.activeElement
    frame.current?.focus()
    const onResize = () => setHeight(innerHeight - frameHeight)
    addEventListener('resize', onResize)
    return () => {
      removeEventListener('resize', onResize)
      if (before instanceof HTMLElement) before.focus()
    }
  }, [])
  return (
    // Not modal: menus of the chart stand outside of it, where the browser would not let them be reached.
    <dialog open ref={frame} tabIndex={-1} className={styles.full} aria-label={toTitle(metric)}>
      <ChartCard metric={metric} runs={runs} state={state} onState={onState} height={height} copies={copies} />
    </dialog>
  )
}
