import { toCount, toNumber } from '../../kit/text.ts'
import { Canvas, drawFrame } from './canvas.tsx'
import styles from './drawings.module.css'
import { isObject, toExtent, toNumbers } from './logged-json.ts'

/** What `log_curve` logs: x and y of as many points. */
export function toCurve(content: unknown) {
  if (!isObject(content)) return undefined
  const [x, y] = [toNumbers(content.x), toNumbers(content.y)]
  return x && y && x.length === y.length ? { x, y } : undefined
}

export function Curve({ curve: { x, y }, name }: { curve: { x: number[]; y: number[] }; name: string }) {
  const [xs, ys] = [toExtent(x), toExtent(y)]
  const missing = x.filter((it, at) => !Number.isFinite(it) || !Number.isFinite(y[at])).length
  return (
    <>
      <Canvas
        label={`${name}: ${toCount(x.length)} points, y from ${toNumber(ys[0])} to ${toNumber(ys[1])}`}
        height={200}
        of={x}
        draw={(to, size, ink) => {
          const box = drawFrame(to, size, ink, { x: toLabels(xs), y: toLabels(ys) })
          const place = (value: number, [least, most]: [number, number]) =>
            most === least ? 0.5 : (value - least) / (most - least)
          to.strokeStyle = ink.accent
          to.lineWidth = 1.5
          to.lineJoin = 'round'
          to.beginPath()
          let isDown = false
          for (const [at, value] of x.entries()) {
            const other = y[at] as number
            if (!Number.isFinite(value) || !Number.isFinite(other)) {
              isDown = false
              continue
            }
            const [left, top] = [box.left + place(value, xs) * box.width, box.top + (1 - place(other, ys)) * box.height]
            if (isDown) to.lineTo(left, top)
            else to.moveTo(left, top)
            isDown = true
          }
          to.stroke()
        }}
      />
      {missing > 0 && <p className={styles.facts}>{`${toCount(missing)} points are not finite: the line has gaps.`}</p>}
    </>
  )
}

const toLabels = ([least, most]: [number, number]): [string, string] => [toNumber(least), toNumber(most)]
