import { useInfiniteQuery, useQuery } from '@tanstack/react-query'
import { getRouteApi, Link } from '@tanstack/react-router'
import type { ComponentType, ReactNode } from 'react'
import {
  type ArtifactVersion,
  artifact as artifactQuery,
  consumers as consumersQuery,
  type FileDifference,
  readDifferences,
} from '../api/artifacts/artifacts.ts'
import { zipUrl } from '../api/artifacts/files.ts'
import { Button } from '../kit/button.tsx'
import { Select } from '../kit/field.tsx'
import { PageLink, toPagePath } from '../kit/page-link.tsx'
import { EmptyPlace, ErrorPlace, LoadingPlace } from '../kit/places.tsx'
import { toAgo, toBytes, toCount, toCountOf, toTime } from '../kit/text.ts'
import { useMayWrite } from '../kit/use-may-write.ts'
import styles from './artifacts.module.css'
import { LabelsEditor } from './labels-editor.tsx'
import { Labels, Metadata, RunName } from './parts.tsx'

const route = getRouteApi('/$workspace/-/artifacts/$artifact/$version')

/** The tree of files belongs to another room. */
export type FilesSlot = ComponentType<{
  of: { versionId: string }
  chosen: string | undefined
  FileLink: (it: {
    assetId: string
    className?: string
    title: string
    isChosen: boolean
    children: ReactNode
  }) => ReactNode
  empty: ReactNode
}>

/** One version of an artifact: its files, what changed, who made and who uses it. */
export function VersionPage({ Files }: { Files: FilesSlot }) {
  const { workspace, artifact: name, version: number } = route.useParams()
  const { file, with: other } = route.useSearch()
  const navigate = route.useNavigate()
  const mayWrite = useMayWrite(workspace)
  const { data, error, refetch } = useQuery(artifactQuery(workspace, name))
  if (error && !data) return <ErrorPlace error={error} onRetry={refetch} />
  if (!data) return <LoadingPlace />
  const version = data.versions.find((it) => it.artifactVersion === number)
  if (!version) {
    return (
      <EmptyPlace
        title="No such version"
        action={
          <Link to="/$workspace/-/artifacts/$artifact" params={{ workspace, artifact: name }}>
            All versions of {name}
          </Link>
        }
      >
        {`${name} has no version ${number}; it may have been deleted.`}
      </EmptyPlace>
    )
  }
  const of = { versionId: version.artifactVersionId }
  const closed = data.versions.filter((it) => it.state === 'CLOSED' && it !== version)
  const compared = closed.find((it) => it.artifactVersion === other)
  return (
    <div className={styles.page}>
      <title>{`${name} ${number} · ${workspace} · svc`}</title>
      <header className={styles.header}>
        <h1 title={`${name} ${number}`}>
          <Link to="/$workspace/-/artifacts/$artifact" params={{ workspace, artifact: name }}>
            {name}
          </Link>{' '}
          {number}
        </h1>
        <span className={styles.state} data-state={version.state}>
          {version.state.toLowerCase()}
        </span>
        {mayWrite ? (
          <LabelsEditor workspace={workspace} name={name} version={version} />
        ) : (
          <Labels aliases={version.alias} tags={version.tags} />
        )}
        <span className={styles.gap} />
        <PageLink
          path={`${toPagePath(workspace)}/-/lineage?${new URLSearchParams({ artifact: JSON.stringify(of.versionId) })}`}
        >
          Lineage
        </PageLink>
      </header>
      <div className={styles.columns}>
        <div className={styles.column}>
          <section className={styles.section} aria-labelledby="differences">
            <div className={styles.sectionHeader}>
              <h2 id="differences">Changes</h2>
              {closed.length > 0 && (
                <Select
                  aria-label="Compared with"
                  value={compared?.artifactVersion ?? ''}
                  onChange={(event) =>
                    void navigate({ search: (it) => ({ ...it, with: event.target.value || undefined }), replace: true })
                  }
                >
                  <option value="">Choose a version to compare with</option>
                  {closed.map((it) => (
                    <option key={it.artifactVersionId} value={it.artifactVersion}>
                      {[it.artifactVersion, ...it.alias].join(', ')}
                    </option>
                  ))}
                </Select>
              )}
            </div>
            {compared ? (
              <Differences from={compared} to={version} />
            ) : (
              <p className={styles.faint}>
                {closed.length > 0
                  ? 'Which files were added, removed and changed since another version.'
                  : 'There is no other version to compare with.'}
              </p>
            )}
          </section>
        </div>
        <div className={styles.column}>
          <About version={version} />
          <Metadata text={version.metadata} />
          <Consumers versionId={of.versionId} />
        </div>
      </div>
      <section className={styles.filesSection} aria-labelledby="files">
        <div className={styles.sectionHeader}>
          <h2 id="files">Files</h2>
          <span className={styles.faint}>{toBytes(version.sizeInBytes)}</span>
        </div>
        <div className={styles.files}>
          <Files
            of={of}
            chosen={file}
            FileLink={FileLink}
            empty={<EmptyPlace title="No files">Nothing was uploaded to this version.</EmptyPlace>}
          />
        </div>
      </section>
    </div>
  )
}

function FileLink(it: { assetId: string; className?: string; title: string; isChosen: boolean; children: ReactNode }) {
  return (
    <Link
      from="/$workspace/-/artifacts/$artifact/$version"
      to="."
      search={(old) => ({ ...old, file: it.assetId })}
      className={it.className}
      title={it.title}
      activeOptions={{ exact: true }}
      aria-current={it.isChosen ? 'true' : undefined}
      resetScroll={false}
    >
      {it.children}
    </Link>
  )
}

function About({ version }: { version: ArtifactVersion }) {
  return (
    <section className={styles.section} aria-labelledby="about">
      <div className={styles.sectionHeader}>
        <h2 id="about">About</h2>
      </div>
      <dl className={styles.facts}>
        <div>
          <dt>Run</dt>
          <dd>
            <RunName experimentKey={version.experimentKey} />
          </dd>
        </div>
        <div>
          <dt>Made</dt>
          <dd title={toTime(version.added)}>{`${toAgo(version.added)} by ${version.owner}`}</dd>
        </div>
        <div>
          <dt>Size</dt>
          <dd>
            {toBytes(version.sizeInBytes)}{' '}
            <a href={zipUrl({ versionId: version.artifactVersionId })} download>
              Download all
            </a>
          </dd>
        </div>
      </dl>
    </section>
  )
}

function Consumers({ versionId }: { versionId: string }) {
  const { data, error, refetch } = useQuery(consumersQuery(versionId))
  return (
    <section className={styles.section} aria-labelledby="consumers">
      <div className={styles.sectionHeader}>
        <h2 id="consumers">Used by</h2>
        {data && data.length > 0 && <span className={styles.faint}>{toCountOf(data.length, 'run')}</span>}
      </div>
      {error && !data ? (
        <ErrorPlace error={error} onRetry={refetch} />
      ) : !data ? (
        <LoadingPlace rows={2} />
      ) : data.length === 0 ? (
        <p className={styles.faint}>No run has read it yet.</p>
      ) : (
        <ul className={styles.consumers}>
          {data.map((it) => (
            <li key={it.experimentKey}>
              <RunName experimentKey={it.experimentKey} />
              <span className={styles.faint} title={toTime(it.firstUsed)}>
                {toAgo(it.firstUsed)}
              </span>
            </li>
          ))}
        </ul>
      )}
    </section>
  )
}

const pageSize = 200

function Differences({ from, to }: { from: ArtifactVersion; to: ArtifactVersion }) {
  const ids = { fromVersionId: from.artifactVersionId, toVersionId: to.artifactVersionId }
  const pages = useInfiniteQuery({
    queryKey: ['artifact-diff', ids],
    queryFn: ({ pageParam: page, signal }) => readDifferences({ ...ids, pageSize, ...(page && { page }) }, signal),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (last) => last.nextPage ?? undefined,
  })
  const { data, error } = pages
  if (error && !data) return <ErrorPlace error={error} onRetry={() => pages.refetch()} />
  const [first] = data?.pages ?? []
  if (!data || !first) return <LoadingPlace rows={3} />
  const files = data.pages.flatMap((it) => it.files)
  const total = first.added + first.removed + first.changed
  return (
    <>
      <p role="status">
        {`Since ${from.artifactVersion}: ${toCount(first.added)} added, ${toCount(first.removed)} removed, ${toCount(first.changed)} changed, ${toCount(first.unchanged)} unchanged.`}
      </p>
      {files.length > 0 && (
        <div className={styles.frame}>
          <table className={styles.table}>
            <thead>
              <tr>
                <th scope="col">File</th>
                <th scope="col">Change</th>
                <th scope="col" className={styles.number}>
                  Before
                </th>
                <th scope="col" className={styles.number}>
                  Now
                </th>
              </tr>
            </thead>
            <tbody>
              {files.map((it) => (
                <tr key={it.fileName}>
                  <td title={it.fileName}>{it.fileName}</td>
                  <td>
                    <span className={styles.change} data-change={it.change}>
                      {it.change}
                    </span>
                  </td>
                  <td className={styles.number}>{toSize(it.from)}</td>
                  <td className={styles.number}>{toSize(it.to)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {pages.hasNextPage && (
        <p className={styles.tools}>
          <Button size="small" onClick={() => pages.fetchNextPage()} disabled={pages.isFetchingNextPage}>
            Show more
          </Button>
          <span className={styles.faint}>{`${toCount(files.length)} of ${toCount(total)}`}</span>
        </p>
      )}
    </>
  )
}

function toSize(file: FileDifference['from']): string {
  if (file === null) return ''
  return file.link === null ? toBytes(file.fileSize) : 'remote'
}
