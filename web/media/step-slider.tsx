import { useEffect, useState } from 'react'
import { toCount } from '../kit/text.ts'
import styles from './media.module.css'

type SliderProps = {
  steps: number[]
  total: number
  truncated: boolean
  step: number | undefined
  onStep(step: number | undefined): void
}

const settledMs = 120

/** Goes from step to step of those that have media; at its end it stays with the newest. */
export function StepSlider({ steps, total, truncated, step, onStep }: SliderProps) {
  const last = steps.length - 1
  const given =
    step === undefined
      ? last
      : Math.max(
          0,
          steps.findLastIndex((it) => it <= step),
        )
  const [moved, setMoved] = useState<number>()
  useEffect(() => {
    if (moved === undefined) return
    const timer = setTimeout(() => {
      onStep(moved === last ? undefined : steps[moved])
      setMoved(undefined)
    }, settledMs)
    return () => clearTimeout(timer)
  }, [moved, last, steps, onStep])
  if (steps.length === 0) return null
  const at = moved ?? given
  const text = `step ${toCount(steps[at] ?? 0)}`
  return (
    <span className={styles.slider}>
      <input
        type="range"
        aria-label="Step"
        aria-valuetext={text}
        min={0}
        max={last}
        value={at}
        disabled={last === 0}
        onChange={(event) => setMoved(Number(event.target.value))}
      />
      <output className={styles.step}>
        {text}
        {at === last && step === undefined && moved === undefined && <span className={styles.faint}> (newest)</span>}
      </output>
      {truncated && (
        <span className={styles.faint}>{`the first ${toCount(steps.length)} of ${toCount(total)} steps`}</span>
      )}
    </span>
  )
}
