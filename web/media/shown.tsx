import { useQuery } from '@tanstack/react-query'
import { lazy, type ReactNode, Suspense, useEffect, useState } from 'react'
import { fileBytes, fileUrl, pageUrl } from '../api/artifacts/files.ts'
import type { Medium } from '../api/artifacts/media.ts'
import { ErrorPlace, LoadingPlace } from '../kit/places.tsx'
import { FileTable } from '../kit/table/file-table.tsx'
import { toBytes } from '../kit/text.ts'
import { parseLogged } from './drawings/logged-json.ts'
import styles from './media.module.css'

const Drawing = lazy(() => import('./drawings/drawing.tsx').then((it) => ({ default: it.Drawing })))

const textBytesMax = 100_000
const drawnBytesMax = 50_000_000

/** One medium. What is no such thing as its kind says is shown as text, or as a file to download. */
export function Shown({ medium }: { medium: Medium }) {
  const { kind, experimentKey, assetId, name, fileName, contentType, remote, link } = medium
  const [isBroken, setBroken] = useState(false)
  const of = { experimentKey }
  const label = medium.step === null ? name : `${name}, step ${medium.step}`
  if (remote) {
    return (
      <p className={styles.faint}>
        {'Only its address is stored: '}
        {/^https?:\/\//.test(link) ? (
          <a href={link} target="_blank" rel="noreferrer">
            {link}
          </a>
        ) : (
          link
        )}
      </p>
    )
  }
  if (isBroken) return <Unshown medium={medium} />
  const url = fileUrl(of, assetId)
  if (kind === 'image' || (kind === 'video' && contentType.startsWith('image/'))) {
    return <img src={url} alt={label} loading="lazy" className={styles.image} onError={() => setBroken(true)} />
  }
  if (kind === 'audio') {
    return (
      // biome-ignore lint/a11y/useMediaCaption: what a run logs has none
      <audio
        controls
        preload="none"
        src={url}
        aria-label={label}
        className={styles.audio}
        onError={() => setBroken(true)}
      />
    )
  }
  if (kind === 'video') {
    return (
      // biome-ignore lint/a11y/useMediaCaption: what a run logs has none
      <video
        controls
        preload="metadata"
        src={url}
        aria-label={label}
        className={styles.image}
        onError={() => setBroken(true)}
      />
    )
  }
  if (kind === 'html') {
    return (
      <iframe sandbox="allow-scripts" src={pageUrl(of, assetId)} title={label} loading="lazy" className={styles.html} />
    )
  }
  if (kind === 'table') return <FileTable of={of} assetId={assetId} fileName={fileName} label={label} />
  if (kind === 'text') return <Words medium={medium} />
  return <Drawn medium={medium} label={label} />
}

function Unshown({ medium: { experimentKey, assetId, fileName, fileSize } }: { medium: Medium }) {
  return (
    <p className={styles.faint}>
      {'The browser cannot show it: '}
      <a href={fileUrl({ experimentKey }, assetId)} download={fileName.split('/').at(-1)}>
        {`download ${toBytes(fileSize)}`}
      </a>
    </p>
  )
}

function Words({ medium }: { medium: Medium }) {
  const { experimentKey, assetId, fileSize, fileName } = medium
  const of = { experimentKey }
  const isCut = fileSize > textBytesMax
  const { data, error, refetch } = useQuery(fileBytes(of, assetId, isCut ? textBytesMax : undefined))
  const text = useText(data)
  if (error) return <ErrorPlace error={error} onRetry={refetch} />
  if (text === undefined) return <LoadingPlace rows={2} />
  return (
    <>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: it is scrolled by keyboard */}
      <pre className={styles.text} tabIndex={0}>
        {text}
      </pre>
      {isCut && (
        <p className={styles.faint}>
          {`The first ${toBytes(textBytesMax)} of ${toBytes(fileSize)} are shown: `}
          <a href={fileUrl(of, assetId)} download={fileName.split('/').at(-1)}>
            download all
          </a>
        </p>
      )}
    </>
  )
}

function Drawn({ medium, label }: { medium: Medium; label: string }) {
  const { experimentKey, assetId, fileSize } = medium
  const isSmall = fileSize <= drawnBytesMax
  const { data, error, refetch } = useQuery({ ...fileBytes({ experimentKey }, assetId), enabled: isSmall })
  const text = useText(data)
  if (!isSmall) return <Unshown medium={medium} />
  if (error) return <ErrorPlace error={error} onRetry={refetch} />
  if (text === undefined) return <LoadingPlace rows={4} />
  const fallback: ReactNode = <pre className={styles.text}>{text.slice(0, textBytesMax)}</pre>
  let content: unknown
  try {
    content = parseLogged(text)
  } catch {
    return fallback
  }
  return (
    <Suspense fallback={<LoadingPlace rows={4} />}>
      <Drawing kind={medium.kind} content={content} label={label} experimentKey={experimentKey} fallback={fallback} />
    </Suspense>
  )
}

function useText(blob: Blob | undefined): string | undefined {
  const [text, setText] = useState<string>()
  useEffect(() => {
    let isHere = true
    blob?.text().then((it) => isHere && setText(it))
    return () => {
      isHere = false
    }
  }, [blob])
  return text
}
