import { type ReactNode, useMemo } from 'react'
import { ConfusionMatrix, toConfusionMatrix } from './confusion-matrix.tsx'
import { Curve, toCurve } from './curve.tsx'
import { Embedding, toEmbedding } from './embedding.tsx'
import { Histogram, toHistogram } from './histogram.tsx'
import { Points, toPoints } from './points.tsx'

type Props = {
  kind: string
  /** Parsed JSON of anybody. */
  content: unknown
  label: string
  experimentKey: string
  /** What is shown of a content that is not of this kind. */
  fallback: ReactNode
}

/** Draws what a JSON file of a kind holds. */
export function Drawing({ kind, content, label, experimentKey, fallback }: Props) {
  // The content of a file never changes.
  const drawn = useMemo(() => {
    if (kind === 'curve') return { curve: toCurve(content) }
    if (kind === 'histogram') return { histogram: toHistogram(content) }
    if (kind === 'confusion-matrix') return { matrix: toConfusionMatrix(content) }
    if (kind === 'points') return { points: toPoints(content) }
    if (kind === 'embedding') return { embedding: toEmbedding(content) }
    return {}
  }, [kind, content])
  if (drawn.curve) return <Curve curve={drawn.curve} name={label} />
  if (drawn.histogram) return <Histogram histogram={drawn.histogram} name={label} />
  if (drawn.matrix) return <ConfusionMatrix matrix={drawn.matrix} />
  if (drawn.points) return <Points points={drawn.points} name={label} />
  if (drawn.embedding) return <Embedding of={drawn.embedding} experimentKey={experimentKey} name={label} />
  return fallback
}
