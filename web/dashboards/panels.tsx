import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { type ComponentType, lazy, Suspense, useEffect, useState } from 'react'
import { fileBytes } from '../api/artifacts/files.ts'
import type { Content, ContentOf } from '../api/dashboards.ts'
import { shareCode } from '../api/http.ts'
import { type Asset, assets } from '../api/run.ts'
import { readRuns } from '../api/runs.ts'
import { ErrorPlace, LoadingPlace } from '../kit/places.tsx'
import { toNumber } from '../kit/text.ts'
import styles from './dashboards.module.css'
import { type Kind, toColumn } from './panel-kinds.ts'
import type { Slots } from './slots.ts'

const Markdown = lazy(() => import('../kit/notes/markdown.tsx').then((it) => ({ default: it.Markdown })))

type Props = { workspace: string; project: string; content: Content; slots: Slots }

/** What a panel shows. */
export function PanelContent({ workspace, project, content, slots }: Props) {
  const place = { workspace, project }
  if (shareCode() !== undefined && forMembers.has(content.kind)) {
    return <p className={styles.note}>This is for the members of the workspace.</p>
  }
  switch (content.kind) {
    case 'value':
      return <Value {...place} content={content} />
    case 'file':
      return <File {...place} content={content} />
    case 'text':
      return (
        <Suspense fallback={null}>
          <Markdown text={content.text} />
        </Suspense>
      )
    default: {
      const Slot = slots[content.kind] as ComponentType<typeof place & { content: Content }> | undefined
      if (!Slot) {
        return (
          <p className={styles.note}>
            This page does not know such a panel. Load it again: it may be older than the service.
          </p>
        )
      }
      return (
        <Suspense fallback={<LoadingPlace rows={3} />}>
          {/* Another metric or other runs begin with how the dashboard has them. */}
          <Slot key={JSON.stringify(content)} {...place} content={content} />
        </Suspense>
      )
    }
  }
}

/** What belongs to the workspace: a share link of the project does not open it. */
const forMembers = new Set<Kind>(['model', 'drift', 'feature', 'labels', 'firings', 'artifact', 'versions'])

type Of<It extends Kind> = { workspace: string; project: string; content: ContentOf<It> }

const againMs = 5_000

/** The best value of a metric and the run that has it. */
function Value({ workspace, project, content: { metric, of, query } }: Of<'value'>) {
  const column = toColumn(metric, of)
  const asked = {
    workspaceName: workspace,
    projectName: project,
    columns: [column],
    sort: [{ column, order: of === 'min' ? ('asc' as const) : ('desc' as const) }],
    query,
    size: 1,
  }
  const { data, error, refetch } = useQuery({
    queryKey: ['runs', workspace, project, 'best', asked],
    queryFn: ({ signal }) => readRuns(asked, signal),
    refetchInterval: againMs,
  })
  if (error && !data) return <ErrorPlace error={error} onRetry={refetch} />
  if (!data) return <LoadingPlace rows={1} />
  const [run] = data.runs
  const value = run?.values[0]
  if (!run || value === null || value === undefined) return <p className={styles.note}>No run has a value yet.</p>
  return (
    <>
      <span className={styles.value} title={String(value)}>
        {toNumber(Number(value))}
      </span>
      <Link
        to="/$workspace/$project/$key"
        params={{ workspace, project, key: run.experimentKey }}
        className={styles.run}
        title={run.name}
      >
        {run.name}
      </Link>
    </>
  )
}

const imageTypes: Record<string, string> = {
  png: 'image/png',
  jpg: 'image/jpeg',
  jpeg: 'image/jpeg',
  gif: 'image/gif',
  webp: 'image/webp',
  svg: 'image/svg+xml',
}
const bytesMax = 20_000_000

/** Whether it is drawn as an image, or else as a text. */
const isImage = ({ fileName, type }: Pick<Asset, 'fileName' | 'type'>) =>
  type === 'image' || imageTypes[toEnding(fileName)] !== undefined

const toEnding = (fileName: string) => fileName.split('.').at(-1)?.toLowerCase() ?? ''

/** A file of a run: the last one of this name. */
function File({ workspace, project, content: { experimentKey, fileName } }: Of<'file'>) {
  const { data, error, refetch } = useQuery({ ...assets(experimentKey), refetchInterval: againMs })
  if (error && !data) return <ErrorPlace error={error} onRetry={refetch} />
  if (!data) return <LoadingPlace rows={3} />
  const asset = data
    .filter((it) => it.fileName === fileName && !it.remote)
    .toSorted((a, b) => (a.step ?? 0) - (b.step ?? 0) || a.createdAt - b.createdAt)
    .at(-1)
  if (!asset) return <p className={styles.note}>The run has no file {fileName} any more.</p>
  if (asset.fileSize > bytesMax) {
    return (
      <Link
        to="/$workspace/$project/$key"
        params={{ workspace, project, key: experimentKey }}
        search={{ tab: 'files', file: asset.assetId }}
      >
        It is too large to be shown here: open it in the run.
      </Link>
    )
  }
  return <FileBytes asset={asset} experimentKey={experimentKey} />
}

function FileBytes({ asset, experimentKey }: { asset: Asset; experimentKey: string }) {
  const { data, error, refetch } = useQuery(fileBytes({ experimentKey }, asset.assetId))
  const [shown, setShown] = useState<{ url: string } | { text: string }>()
  useEffect(() => {
    if (!data) return
    if (isImage(asset)) {
      const url = URL.createObjectURL(new Blob([data], { type: imageTypes[toEnding(asset.fileName)] ?? 'image/png' }))
      setShown({ url })
      return () => URL.revokeObjectURL(url)
    }
    let isHere = true
    data.text().then((text) => isHere && setShown({ text }))
    return () => {
      isHere = false
    }
  }, [data, asset])
  if (error) return <ErrorPlace error={error} onRetry={refetch} />
  if (!shown) return <LoadingPlace rows={3} />
  if ('url' in shown) return <img src={shown.url} alt={asset.fileName} className={styles.image} />
  // Markup is shown as its source: a file never becomes a part of this page.
  return <pre className={styles.fileText}>{shown.text}</pre>
}
