import { type ComponentProps, useEffect, useRef, useState } from 'react'
import { join } from '../../kit/button.tsx'
import { resolveColour, useIsDark } from '../../kit/theme.ts'
import styles from './drawings.module.css'

type Draw = (to: CanvasRenderingContext2D, size: { width: number; height: number }, ink: Ink) => void

/** Colours of the page, as a canvas understands them. */
type Ink = { line: string; text: string; faint: string; accent: string; isDark: boolean }

type Props = Omit<ComponentProps<'canvas'>, 'height'> & { label: string; height: number; draw: Draw; of: unknown }

/** A drawing as wide as its place. It is drawn again when `of`, the size or the theme changes. */
export function Canvas({ label, height, draw, of, className, ...rest }: Props) {
  const canvas = useRef<HTMLCanvasElement>(null)
  const latest = useRef(draw)
  latest.current = draw
  const [width, setWidth] = useState(0)
  const isDark = useIsDark()
  useEffect(() => {
    const element = canvas.current
    if (!element) return
    const watch = new ResizeObserver(() => setWidth(element.clientWidth))
    watch.observe(element)
    return () => watch.disconnect()
  }, [])
  // biome-ignore lint/correctness/useExhaustiveDependencies: what is drawn follows from `of`
  useEffect(() => {
    const element = canvas.current
    const to = element?.getContext('2d')
    if (!element || !to || width === 0) return
    const scale = devicePixelRatio || 1
    element.width = Math.round(width * scale)
    element.height = Math.round(height * scale)
    to.setTransform(scale, 0, 0, scale, 0, 0)
    to.clearRect(0, 0, width, height)
    to.font = `11px ${getComputedStyle(element).fontFamily}`
    const ink = {
      line: resolveColour('--line-strong'),
      text: resolveColour('--text-soft'),
      faint: resolveColour('--text-faint'),
      accent: resolveColour('--accent'),
      isDark,
    }
    latest.current(to, { width, height }, ink)
  }, [width, height, isDark, of])
  return (
    <canvas
      ref={canvas}
      role="img"
      aria-label={label}
      className={join(styles.canvas, className)}
      style={{ height }}
      {...rest}
    >
      {label}
    </canvas>
  )
}

export type Box = { left: number; top: number; width: number; height: number }

/** Draws the frame of a chart with the least and the greatest value of each axis, and says where its inside is. */
export function drawFrame(
  to: CanvasRenderingContext2D,
  { width, height }: { width: number; height: number },
  ink: Ink,
  labels: { x: [string, string]; y: [string, string] },
): Box {
  to.fillStyle = ink.text
  const left = Math.ceil(Math.max(...labels.y.map((it) => to.measureText(it).width))) + 8
  const box = { left, top: 6, width: Math.max(1, width - left - 6), height: Math.max(1, height - 26) }
  to.strokeStyle = ink.line
  to.lineWidth = 1
  to.strokeRect(box.left - 0.5, box.top - 0.5, box.width + 1, box.height + 1)
  to.textBaseline = 'middle'
  to.textAlign = 'right'
  to.fillText(labels.y[1], left - 6, box.top + 6)
  to.fillText(labels.y[0], left - 6, box.top + box.height - 5)
  to.textBaseline = 'top'
  to.textAlign = 'left'
  to.fillText(labels.x[0], box.left, box.top + box.height + 6)
  to.textAlign = 'right'
  to.fillText(labels.x[1], box.left + box.width, box.top + box.height + 6)
  return box
}
