import { type ReactNode, useEffect, useRef, useState } from 'react'
import { join } from './button.tsx'
import styles from './popover.module.css'

type Props = {
  /** Draws the button; it gets what to call and whether the panel is open. */
  trigger(toggle: () => void, isOpen: boolean): ReactNode
  /** What the panel is about, for screen readers. */
  label: string
  children(close: () => void): ReactNode
  align?: 'start' | 'end'
  className?: string
}

/** A panel below a button. A click elsewhere or Escape closes it, and the focus goes back to the button. */
export function Popover({ trigger, label, children, align = 'start', className }: Props) {
  const [isOpen, setOpen] = useState(false)
  const frame = useRef<HTMLDivElement>(null)
  const close = () => {
    setOpen(false)
    frame.current?.querySelector('button')?.focus()
  }
  useEffect(() => {
    if (!isOpen) return
    const onPointerDown = (event: PointerEvent) => {
      if (!frame.current?.contains(event.target as Node)) setOpen(false)
    }
    addEventListener('pointerdown', onPointerDown)
    return () => removeEventListener('pointerdown', onPointerDown)
  }, [isOpen])
  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: Escape bubbles here from the controls inside
    <div
      ref={frame}
      className={styles.frame}
      onKeyDown={(event) => {
        if (event.key !== 'Escape' || !isOpen) return
        event.stopPropagation()
        close()
      }}
    >
      {trigger(() => setOpen(!isOpen), isOpen)}
      {isOpen && (
        <div role="dialog" aria-label={label} className={join(styles.panel, styles[align], className)}>
          {children(close)}
        </div>
      )}
    </div>
  )
}
