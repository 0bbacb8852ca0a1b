import { useQuery } from '@tanstack/react-query'
import { useEffect, useState } from 'react'
import { type File, type FilesOf, fileBytes, file as fileQuery, fileUrl, pageUrl } from '../api/artifacts/files.ts'
import { isParquet } from '../api/artifacts/parquet.ts'
import { CodeView } from '../kit/code/code-view.tsx'
import { ErrorPlace, LoadingPlace } from '../kit/places.tsx'
import { FileTable } from '../kit/table/file-table.tsx'
import { toAgo, toBytes } from '../kit/text.ts'
import styles from './files.module.css'

/** One file: what it is, and its content as far as a browser can show it. */
export function Preview({ of, assetId }: { of: FilesOf; assetId: string }) {
  const { data: file, error, refetch } = useQuery(fileQuery(of, assetId))
  if (error) return <ErrorPlace error={error} onRetry={refetch} />
  if (file === undefined) return <LoadingPlace />
  if (file === null) return <p className={styles.faint}>This file is not there any more.</p>
  const { fileName, fileSize, remote, createdAt, step, type, link, contentType } = file
  const facts = [type, contentType, step !== null && `step ${step}`, !remote && toBytes(fileSize), toAgo(createdAt)]
  return (
    <>
      <header className={styles.header}>
        <h2 title={fileName}>{fileName}</h2>
        <span className={styles.faint}>{facts.filter(Boolean).join(' · ')}</span>
        {!remote ? (
          <a href={fileUrl(of, assetId)} download={fileName.split('/').at(-1)}>
            Download
          </a>
        ) : (
          /^https?:\/\//.test(link ?? '') && (
            <a href={link as string} target="_blank" rel="noreferrer">
              Open
            </a>
          )
        )}
      </header>
      {file.metadata && <pre className={styles.metadata}>{file.metadata}</pre>}
      {remote ? <p className={styles.faint}>Only its address is stored: {link}</p> : <Content of={of} file={file} />}
    </>
  )
}

const imageTypes: Record<string, string> = {
  png: 'image/png',
  jpg: 'image/jpeg',
  jpeg: 'image/jpeg',
  gif: 'image/gif',
  webp: 'image/webp',
  bmp: 'image/bmp',
  svg: 'image/svg+xml',
}
const textBytesMax = 5_000_000
const imageBytesMax = 50_000_000

type ContentProps = { of: FilesOf; file: File }

/** Markup is shown as its source, or in a frame that has no origin: a file never becomes a part of this page. */
function Content({ of, file }: ContentProps) {
  const { assetId, fileName, type, contentType } = file
  const ending = fileName.split('.').at(-1)?.toLowerCase() ?? ''
  const [asText, setAsText] = useState(false)
  const imageType = imageTypes[ending] ?? (type === 'image' ? 'image/png' : undefined)
  const isTable = ending === 'csv' || ending === 'tsv' || (ending === 'json' && type === 'dataframe')
  const isPage = contentType === 'text/html'
  if (isParquet(fileName)) return <FileTable of={of} assetId={assetId} fileName={fileName} height={560} />
  if (imageType) return <Picture of={of} file={file} type={imageType} />
  if (type === 'audio' || contentType.startsWith('audio/')) {
    return (
      // biome-ignore lint/a11y/useMediaCaption: what a run logs has none
      <audio controls preload="metadata" src={fileUrl(of, assetId)} aria-label={fileName} className={styles.media} />
    )
  }
  if (type === 'video' || contentType.startsWith('video/')) {
    return (
      // biome-ignore lint/a11y/useMediaCaption: what a run logs has none
      <video controls preload="metadata" src={fileUrl(of, assetId)} aria-label={fileName} className={styles.media} />
    )
  }
  if (!isTable && !isPage) return <Text of={of} file={file} />
  return (
    <>
      <p className={styles.as}>
        <button type="button" aria-pressed={!asText} onClick={() => setAsText(false)}>
          {isTable ? 'Table' : 'Page'}
        </button>
        <button type="button" aria-pressed={asText} onClick={() => setAsText(true)}>
          Source
        </button>
      </p>
      {asText ? (
        <Text of={of} file={file} />
      ) : isTable ? (
        <FileTable of={of} assetId={assetId} fileName={fileName} height={560} />
      ) : (
        <iframe sandbox="allow-scripts" src={pageUrl(of, assetId)} title={fileName} className={styles.page} />
      )}
    </>
  )
}

function Picture({ of, file, type }: ContentProps & { type: string }) {
  const isSmall = file.fileSize <= imageBytesMax
  const { data, error, refetch } = useQuery({ ...fileBytes(of, file.assetId), enabled: isSmall })
  const [url, setUrl] = useState<string>()
  const [isBroken, setBroken] = useState(false)
  useEffect(() => {
    if (!data) return
    const made = URL.createObjectURL(new Blob([data], { type }))
    setUrl(made)
    return () => URL.revokeObjectURL(made)
  }, [data, type])
  if (!isSmall) return <p className={styles.faint}>It is too large to be shown here: download it.</p>
  if (error) return <ErrorPlace error={error} onRetry={refetch} />
  if (isBroken) return <p className={styles.faint}>This is no image that the browser can show.</p>
  return url ? (
    <img src={url} alt={file.fileName} className={styles.image} onError={() => setBroken(true)} />
  ) : (
    <LoadingPlace />
  )
}

function Text({ of, file }: ContentProps) {
  const { assetId, fileName, fileSize } = file
  const isSmall = fileSize <= textBytesMax
  const { data, error, refetch } = useQuery({ ...fileBytes(of, assetId), enabled: isSmall })
  const [text, setText] = useState<string | null>()
  useEffect(() => {
    let isHere = true
    data?.text().then((it) => isHere && setText(it.includes('\u0000') ? null : toReadable(it, fileName)))
    return () => {
      isHere = false
    }
  }, [data, fileName])
  if (!isSmall) return <p className={styles.faint}>It is too large to be shown here: download it.</p>
  if (error) return <ErrorPlace error={error} onRetry={refetch} />
  if (text === undefined) return <LoadingPlace />
  if (text === null) return <p className={styles.faint}>It holds no text: download it.</p>
  return <CodeView text={text} fileName={fileName} />
}

/** JSON on one line is hard to read. */
function toReadable(text: string, fileName: string): string {
  if (!fileName.endsWith('.json') || text.includes('\n')) return text
  try {
    return JSON.stringify(JSON.parse(text), null, 2)
  } catch {
    return text
  }
}
