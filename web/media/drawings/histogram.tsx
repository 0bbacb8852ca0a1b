import { toCount, toNumber } from '../../kit/text.ts'
import { Canvas, drawFrame } from './canvas.tsx'
import styles from './drawings.module.css'
import { isObject, toExtent, toNumbers } from './logged-json.ts'

type Shape = {
  edges: number[]
  counts: number[]
  /** Values that are NaN or infinite. */
  nonFinite: number
  facts: [name: string, value: number][]
}

/** What `log_histogram` logs: counts, and one edge more. */
export function toHistogram(content: unknown): Shape | undefined {
  if (!isObject(content)) return undefined
  const [edges, counts] = [toNumbers(content.edges), toNumbers(content.counts)]
  const isWhole = edges && counts && (edges.length === counts.length + 1 || counts.length === 0)
  if (!isWhole || [...edges, ...counts].some(Number.isNaN)) return undefined
  const facts = ['count', 'min', 'max', 'mean', 'std'].flatMap((name): [string, number][] =>
    typeof content[name] === 'number' ? [[name, content[name]]] : [],
  )
  return { edges, counts, nonFinite: Number(content.nonFinite ?? 0) || 0, facts }
}

export function Histogram({ histogram, name }: { histogram: Shape; name: string }) {
  const { edges, counts, nonFinite, facts } = histogram
  const [least, most] = toExtent(edges)
  const [, highest] = toExtent(counts)
  return (
    <>
      <Canvas
        label={`${name}: ${toCount(counts.length)} bins from ${toNumber(least)} to ${toNumber(most)}, ${toCount(highest)} in the highest`}
        height={180}
        of={counts}
        draw={(to, size, ink) => {
          const labels = { x: [toNumber(least), toNumber(most)], y: ['0', toNumber(highest)] } as const
          const box = drawFrame(to, size, ink, { x: [...labels.x], y: [...labels.y] })
          const width = most - least || 1
          to.fillStyle = ink.accent
          for (const [at, count] of counts.entries()) {
            const left = box.left + (((edges[at] as number) - least) / width) * box.width
            const right = box.left + (((edges[at + 1] as number) - least) / width) * box.width
            const height = highest === 0 ? 0 : (count / highest) * box.height
            // A bin that has something is seen, however little.
            const shown = count > 0 ? Math.max(1, height) : 0
            to.fillRect(left, box.top + box.height - shown, Math.max(1, right - left - 0.5), shown)
          }
        }}
      />
      <p className={styles.facts}>
        {[
          ...facts.map(([fact, value]) => `${fact} ${toNumber(value)}`),
          nonFinite > 0 && `${toCount(nonFinite)} not finite`,
        ]
          .filter(Boolean)
          .join(' · ')}
      </p>
    </>
  )
}
