import { type KeyboardEvent, type PointerEvent, type ReactNode, useRef, useState } from 'react'
import styles from './split.module.css'

type Props = {
  left: ReactNode
  right: ReactNode
  /** The part of the left side, in percent; 0 and 100 hide a side. */
  share: number
  onShare(share: number): void
  /** What the line between the sides is called for screen readers. */
  label: string
}

const step = 5
/** Nearer to an edge than this, a side is hidden. */
const sideMin = 12

/** Two sides and a line between them, to be dragged or moved with the arrow keys. */
export function Split({ left, right, share, onShare, label }: Props) {
  const frame = useRef<HTMLDivElement>(null)
  const [dragged, setDragged] = useState<number>()
  const shown = dragged ?? share
  const settle = (it: number) => (it < sideMin ? 0 : it > 100 - sideMin ? 100 : Math.round(it))
  function start(event: PointerEvent<HTMLDivElement>) {
    event.preventDefault()
    const line = event.currentTarget
    line.setPointerCapture(event.pointerId)
    const toShare = (it: { clientX: number }) => {
      const box = (frame.current as HTMLDivElement).getBoundingClientRect()
      return settle(Math.min(Math.max(((it.clientX - box.left) / box.width) * 100, 0), 100))
    }
    line.onpointermove = (it) => setDragged(toShare(it))
    line.onpointerup = (it) => {
      line.onpointermove = null
      line.onpointerup = null
      setDragged(undefined)
      onShare(toShare(it))
    }
  }
  function onKeyDown({ key }: KeyboardEvent) {
    const by = key === 'ArrowLeft' ? -step : key === 'ArrowRight' ? step : 0
    if (by === 0) return
    const isOpening = (shown === 0 && by > 0) || (shown === 100 && by < 0)
    onShare(isOpening ? (by > 0 ? sideMin : 100 - sideMin) : settle(Math.min(Math.max(shown + by, 0), 100)))
  }
  return (
    <div ref={frame} className={styles.split}>
      {shown > 0 && (
        <div className={styles.side} style={{ width: `${shown}%` }}>
          {left}
        </div>
      )}
      <div
        role="separator"
        aria-label={label}
        aria-orientation="vertical"
        aria-valuenow={shown}
        tabIndex={0}
        className={styles.line}
        onPointerDown={start}
        onKeyDown={onKeyDown}
        onDoubleClick={() => onShare(50)}
      />
      {shown < 100 && (
        <div className={styles.side} style={{ width: `${100 - shown}%` }}>
          {right}
        </div>
      )}
    </div>
  )
}
