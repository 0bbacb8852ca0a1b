import { useQuery } from '@tanstack/react-query'
import { getRouteApi, Link } from '@tanstack/react-router'
import { useEffect, useMemo, useState } from 'react'
import { type Asset, assetBytes, assets, assetUrl, live } from '../../api/run.ts'
import { EmptyPlace, ErrorPlace, LoadingPlace } from '../../kit/places.tsx'
import { toAgo, toBytes, toCountOf } from '../../kit/text.ts'
import { CodeView } from '../output/code-view.tsx'
import styles from './files-tab.module.css'

const route = getRouteApi('/$workspace/$project/$key')

/** The files of a run by folder, and the one that is chosen. */
export function FilesTab({ experimentKey, isLive }: { experimentKey: string; isLive: boolean }) {
  const { data, error, refetch } = useQuery({ ...assets(experimentKey), ...live(isLive) })
  const { file } = route.useSearch()
  const folders = useMemo(() => toFolders(data ?? []), [data])
  if (error && !data) return <ErrorPlace error={error} onRetry={refetch} />
  if (!data) return <LoadingPlace />
  if (data.length === 0) {
    return (
      <EmptyPlace title="No files">Images, models, tables and any other file that the run logs appear here.</EmptyPlace>
    )
  }
  const chosen = data.find((it) => it.assetId === file)
  const bytes = data.reduce((sum, it) => sum + it.fileSize, 0)
  return (
    <div className={styles.files}>
      <nav className={styles.tree} aria-label="Files">
        <p className={styles.total}>
          {toCountOf(data.length, 'file')}, {toBytes(bytes)}
        </p>
        {folders.map(([folder, files]) => (
          <details key={folder} open>
            <summary title={folder}>{folder}</summary>
            <ul>
              {files.map((it) => (
                <li key={it.assetId}>
                  <Link
                    from="/$workspace/$project/$key"
                    to="."
                    search={(old) => ({ ...old, tab: 'files', file: it.assetId })}
                    className={styles.file}
                    activeOptions={{ exact: true }}
                    aria-current={it.assetId === file ? 'true' : undefined}
                    title={it.fileName}
                  >
                    <span>{it.fileName.split('/').at(-1) || it.fileName}</span>
                    <span className={styles.size}>{it.remote ? 'remote' : toBytes(it.fileSize)}</span>
                  </Link>
                </li>
              ))}
            </ul>
          </details>
        ))}
      </nav>
      <div className={styles.preview}>
        {chosen ? (
          <Preview key={chosen.assetId} asset={chosen} experimentKey={experimentKey} />
        ) : (
          <EmptyPlace title="Choose a file">
            Images, texts and JSON are shown here; every file can be downloaded.
          </EmptyPlace>
        )}
      </div>
    </div>
  )
}

function toFolders(all: Asset[]): [string, Asset[]][] {
  const folders = Map.groupBy(all, (it) => it.dir)
  return [...folders]
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(([folder, files]) => [folder, files.toSorted((a, b) => (a.fileName < b.fileName ? -1 : 1))])
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
const previewBytesMax = 5_000_000
const imageBytesMax = 50_000_000

function Preview({ asset, experimentKey }: { asset: Asset; experimentKey: string }) {
  const { assetId, fileName, fileSize, remote, createdAt, step, type, link } = asset
  const isWeb = /^https?:\/\//.test(link)
  return (
    <>
      <header className={styles.header}>
        <h2 title={fileName}>{fileName}</h2>
        <span className={styles.faint}>
          {[type, step !== null && `step ${step}`, !remote && toBytes(fileSize), toAgo(createdAt)]
            .filter(Boolean)
            .join(' · ')}
        </span>
        {remote ? (
          isWeb && (
            <a href={link} target="_blank" rel="noreferrer">
              Open
            </a>
          )
        ) : (
          <a href={assetUrl(experimentKey, assetId)} download={fileName.split('/').at(-1)}>
            Download
          </a>
        )}
      </header>
      {remote ? (
        <p className={styles.faint}>Only its address is stored: {link}</p>
      ) : (
        <Bytes asset={asset} experimentKey={experimentKey} />
      )}
    </>
  )
}

/** The bytes as an image or a text. Markup is shown as its source: a file never becomes a part of this page. */
function Bytes({ asset, experimentKey }: { asset: Asset; experimentKey: string }) {
  const { assetId, fileName, fileSize, type } = asset
  const ending = fileName.split('.').at(-1)?.toLowerCase() ?? ''
  const imageType = imageTypes[ending] ?? (type === 'image' ? 'image/png' : undefined)
  const isSmall = fileSize <= (imageType ? imageBytesMax : previewBytesMax)
  const { data, error, refetch } = useQuery({ ...assetBytes(experimentKey, assetId), enabled: isSmall })
  if (!isSmall) return <p className={styles.faint}>It is too large to be shown here: download it.</p>
  if (error) return <ErrorPlace error={error} onRetry={refetch} />
  if (!data) return <LoadingPlace />
  return imageType ? (
    <Picture blob={new Blob([data], { type: imageType })} name={fileName} />
  ) : (
    <Text blob={data} fileName={fileName} />
  )
}

function Picture({ blob, name }: { blob: Blob; name: string }) {
  const [url, setUrl] = useState<string>()
  const [isBroken, setBroken] = useState(false)
  // biome-ignore lint/correctness/useExhaustiveDependencies: the bytes of an asset do not change
  useEffect(() => {
    const made = URL.createObjectURL(blob)
    setUrl(made)
    return () => URL.revokeObjectURL(made)
  }, [])
  if (isBroken) return <p className={styles.faint}>This is no image that the browser can show.</p>
  return url && <img src={url} alt={name} className={styles.image} onError={() => setBroken(true)} />
}

function Text({ blob, fileName }: { blob: Blob; fileName: string }) {
  const [text, setText] = useState<string | null>()
  useEffect(() => {
    let isHere = true
    blob.text().then((it) => isHere && setText(it.includes('\u0000') ? null : toReadable(it, fileName)))
    return () => {
      isHere = false
    }
  }, [blob, fileName])
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
