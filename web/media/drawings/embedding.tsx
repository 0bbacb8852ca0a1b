import { useQuery } from '@tanstack/react-query'
import { useEffect, useMemo, useState } from 'react'
import { fileBytes } from '../../api/artifacts/files.ts'
import { ErrorPlace, LoadingPlace } from '../../kit/places.tsx'
import { toRunColour } from '../../kit/run-colour.ts'
import { toBytes, toCount } from '../../kit/text.ts'
import { useIsDark } from '../../kit/theme.ts'
import styles from './drawings.module.css'
import { isObject } from './logged-json.ts'
import { type Projection, project } from './projection.ts'
import { Space } from './space.tsx'

/** The files of an embedding, by their ids in the run. */
type Shape = { title: string; vectorsId: string; labelsId: string | undefined }

const legendMax = 12

/** What `log_embedding` logs: the addresses of vectors and labels, as TensorBoard's projector takes them. */
export function toEmbedding(content: unknown): Shape | undefined {
  if (!isObject(content) || !Array.isArray(content.embeddings)) return undefined
  const [first] = content.embeddings
  if (!isObject(first)) return undefined
  const vectorsId = toAssetId(first.tensorPath)
  if (vectorsId === undefined) return undefined
  return { title: String(first.tensorName ?? ''), vectorsId, labelsId: toAssetId(first.metadataPath) }
}

/** Only the id is taken from an address: the bytes are read from the same run, wherever else it leads. */
function toAssetId(address: unknown): string | undefined {
  if (typeof address !== 'string') return undefined
  return new URLSearchParams(address.split('?')[1] ?? '').get('assetId') ?? undefined
}

export function Embedding({ of, experimentKey, name }: { of: Shape; experimentKey: string; name: string }) {
  const run = { experimentKey }
  const vectors = useQuery(fileBytes(run, of.vectorsId))
  const labels = useQuery({ ...fileBytes(run, of.labelsId ?? ''), enabled: of.labelsId !== undefined })
  const [found, setFound] = useState<Projection & { labels: string[] }>()
  const [problem, setProblem] = useState<Error>()
  const isDark = useIsDark()
  useEffect(() => {
    if (!vectors.data || (of.labelsId !== undefined && !labels.data)) return
    let isHere = true
    const work = async () => {
      const [tensor, texts] = await Promise.all([vectors.data.text(), labels.data?.text()])
      const projection = await project(tensor)
      if (isHere) setFound({ ...projection, labels: toLabels(texts, projection.count) })
    }
    work().catch((error: Error) => isHere && setProblem(error))
    return () => {
      isHere = false
    }
  }, [vectors.data, labels.data, of.labelsId])
  const groups = useMemo(() => toGroups(found?.labels ?? []), [found])
  const scene = useMemo(() => {
    if (!found) return undefined
    const colours = found.labels.map((it) => toRunColour(`label ${it}`, isDark))
    return { positions: found.positions, colours: found.labels.length > 0 ? colours : undefined, lines: [] }
  }, [found, isDark])
  const error = vectors.error ?? labels.error ?? problem
  if (error) return <ErrorPlace error={error} />
  if (!found || !scene) return <LoadingPlace rows={4} />
  return (
    <>
      <Space
        scene={scene}
        label={`${name}: ${toCount(found.count)} vectors of ${toCount(found.dimensions)} numbers`}
        toName={(at) => `${at + 1}: ${found.labels[at] ?? ''}`}
      />
      <div className={styles.legend}>
        {groups.slice(0, legendMax).map(([label, count]) => (
          <span key={label}>
            <i style={{ background: toRunColour(`label ${label}`, isDark) }} />
            {`${label} (${toCount(count)})`}
          </span>
        ))}
        {groups.length > legendMax && <span>{`and ${toCount(groups.length - legendMax)} more labels`}</span>}
      </div>
      <p className={styles.facts}>
        {`${toCount(found.count)} vectors of ${toCount(found.dimensions)} numbers (${toBytes(vectors.data?.size ?? 0)}), on their first three principal components`}
        {found.sampled < found.count && `, which were found from ${toCount(found.sampled)} of them`}.
      </p>
    </>
  )
}

/** One for each vector: the first column, without the line of names that a table has. */
function toLabels(text: string | undefined, count: number): string[] {
  if (text === undefined) return []
  const lines = text.replace(/\n$/, '').split('\n')
  return lines.slice(Math.max(0, lines.length - count)).map((it) => it.split('\t')[0] ?? '')
}

function toGroups(labels: string[]): [string, number][] {
  const counts = new Map<string, number>()
  for (const it of labels) counts.set(it, (counts.get(it) ?? 0) + 1)
  return [...counts].toSorted((a, b) => b[1] - a[1])
}
