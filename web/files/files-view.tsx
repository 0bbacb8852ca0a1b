import { useInfiniteQuery } from '@tanstack/react-query'
import { type ReactNode, useState } from 'react'
import { type File, type FilesOf, type Level, readLevel, treeKey, zipUrl } from '../api/artifacts/files.ts'
import { Button, ButtonLink } from '../kit/button.tsx'
import { DownIcon, DownloadIcon, RightIcon } from '../kit/icons.tsx'
import { EmptyPlace, ErrorPlace, LoadingPlace } from '../kit/places.tsx'
import { SearchField } from '../kit/search-field.tsx'
import { toBytes, toCount, toCountOf } from '../kit/text.ts'
import styles from './files.module.css'
import { Preview } from './preview.tsx'

export type FilesProps = {
  of: FilesOf
  /** Files may be added at any time. */
  isLive?: boolean
  /** The id of the file that is shown. */
  chosen: string | undefined
  /** The address of the page that shows a file, below the address of this one. */
  FileLink: (it: {
    assetId: string
    className?: string
    title: string
    isChosen: boolean
    children: ReactNode
  }) => ReactNode
  /** What stands where there is no file. */
  empty: ReactNode
}

const pageSize = 200
const liveMs = 5_000

/** Files as a tree, and the one that is chosen. Folders are read when they are opened. */
export function FilesView({ of, isLive = false, chosen, FileLink, empty }: FilesProps) {
  const [search, setSearch] = useState('')
  const pages = useLevel(of, { folder: '', search, isLive })
  const [top] = pages.data?.pages ?? []
  if (pages.error && !pages.data) return <ErrorPlace error={pages.error} onRetry={() => pages.refetch()} />
  if (!top) return <LoadingPlace />
  if (top.filesBelow === 0 && search === '') return empty
  return (
    <div className={styles.files}>
      <nav className={styles.tree} aria-label="Files">
        <SearchField label="Search files" placeholder="Name or folder" text={search} onChange={setSearch} />
        <p className={styles.total} role="status">
          {`${toCountOf(top.filesBelow, 'file')}, ${toBytes(top.bytesBelow)}`}
        </p>
        {search === '' && top.filesBelow > 0 && (
          <ButtonLink size="small" href={zipUrl(of)} download>
            <DownloadIcon size={14} /> Download all
          </ButtonLink>
        )}
        <Entries of={of} pages={pages} folder="" isWhole={search !== ''} {...{ isLive, chosen, FileLink }} />
      </nav>
      <div className={styles.preview}>
        {chosen === undefined ? (
          <EmptyPlace title="Choose a file">
            Images, texts, code, JSON and tables are shown here; every file can be downloaded.
          </EmptyPlace>
        ) : (
          <Preview key={chosen} of={of} assetId={chosen} />
        )}
      </div>
    </div>
  )
}

type Asked = { folder: string; search?: string; isLive: boolean }

function useLevel(of: FilesOf, { folder, search, isLive }: Asked) {
  return useInfiniteQuery({
    queryKey: treeKey(of, 'level', folder, search),
    queryFn: ({ pageParam: page, signal }) =>
      readLevel(of, { folder, ...(search && { search }), ...(page && { page }), pageSize }, signal),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (last: Level) => last.nextPage ?? undefined,
    refetchInterval: isLive ? liveMs : false,
  })
}

type EntriesProps = Pick<FilesProps, 'of' | 'chosen' | 'FileLink'> & {
  pages: ReturnType<typeof useLevel>
  folder: string
  /** Files are named with their folders. */
  isWhole?: boolean
  isLive: boolean
}

function Entries({ of, pages, folder, isWhole, isLive, chosen, FileLink }: EntriesProps) {
  const { data } = pages
  if (!data) return <LoadingPlace rows={2} />
  const folders = data.pages.flatMap((it) => it.folders)
  const files = data.pages.flatMap((it) => it.files)
  const total = data.pages[0]?.entries ?? 0
  return (
    <>
      <ul className={styles.entries}>
        {folders.map((it) => (
          <FolderEntry
            key={it.name}
            {...{ of, isLive, chosen, FileLink }}
            name={it.name}
            path={folder === '' ? it.name : `${folder}/${it.name}`}
            files={it.files}
            bytes={it.bytes}
          />
        ))}
        {files.map((it) => (
          <li key={it.assetId}>
            <FileLink assetId={it.assetId} className={styles.file} title={toTitle(it)} isChosen={it.assetId === chosen}>
              <span>{isWhole ? it.fileName : it.fileName.split('/').at(-1) || it.fileName}</span>
              {it.step !== null && <span className={styles.size}>{`step ${it.step}`}</span>}
              <span className={styles.size}>{it.remote ? 'remote' : toBytes(it.fileSize)}</span>
            </FileLink>
          </li>
        ))}
      </ul>
      {files.length + folders.length === 0 && <p className={styles.total}>No file has it in its name.</p>}
      {pages.hasNextPage && (
        <p className={styles.more}>
          <Button size="small" onClick={() => pages.fetchNextPage()} disabled={pages.isFetchingNextPage}>
            Show more
          </Button>
          <span className={styles.size}>{`${toCount(files.length + folders.length)} of ${toCount(total)}`}</span>
        </p>
      )}
    </>
  )
}

const toTitle = ({ fileName, step }: File) => (step === null ? fileName : `${fileName}, step ${step}`)

type FolderProps = Omit<EntriesProps, 'pages' | 'folder'> & { name: string; path: string; files: number; bytes: number }

function FolderEntry({ name, path, files, bytes, ...rest }: FolderProps) {
  const [isOpen, setOpen] = useState(false)
  return (
    <li>
      <button
        type="button"
        className={styles.folder}
        aria-expanded={isOpen}
        title={path}
        onClick={() => setOpen(!isOpen)}
      >
        {isOpen ? <DownIcon size={12} /> : <RightIcon size={12} />}
        <span>{name}</span>
        <span className={styles.size}>{`${toCountOf(files, 'file')}, ${toBytes(bytes)}`}</span>
      </button>
      {isOpen && <OpenFolder path={path} {...rest} />}
    </li>
  )
}

function OpenFolder({ path, ...rest }: Omit<EntriesProps, 'pages' | 'folder'> & { path: string }) {
  const pages = useLevel(rest.of, { folder: path, isLive: rest.isLive })
  return (
    <div className={styles.inner}>
      {pages.error && !pages.data ? (
        <ErrorPlace error={pages.error} onRetry={() => pages.refetch()} />
      ) : (
        <>
          <Entries pages={pages} folder={path} {...rest} />
          {'experimentKey' in rest.of && (
            <a className={styles.zip} href={zipUrl(rest.of, path)} download aria-label={`Download the folder ${path}`}>
              Download the folder
            </a>
          )}
        </>
      )}
    </div>
  )
}
