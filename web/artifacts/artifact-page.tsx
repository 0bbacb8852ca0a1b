import { useQuery } from '@tanstack/react-query'
import { getRouteApi } from '@tanstack/react-router'
import { artifact as artifactQuery } from '../api/artifacts/artifacts.ts'
import { PageLink, toPagePath } from '../kit/page-link.tsx'
import { EmptyPlace, ErrorPlace, LoadingPlace } from '../kit/places.tsx'
import { toBytes, toCountOf } from '../kit/text.ts'
import styles from './artifacts.module.css'
import { Metadata } from './parts.tsx'
import { Versions } from './versions.tsx'

const route = getRouteApi('/$workspace/-/artifacts/$artifact')

const againMs = 10_000

/** One artifact: what it is, and its versions. */
export function ArtifactPage() {
  const { workspace, artifact: name } = route.useParams()
  const { data, error, refetch } = useQuery({ ...artifactQuery(workspace, name), refetchInterval: againMs })
  if (error && !data) return <ErrorPlace error={error} onRetry={refetch} />
  if (!data) return <LoadingPlace />
  return (
    <div className={styles.page}>
      <title>{`${name} · ${workspace} · svc`}</title>
      <header className={styles.header}>
        <h1 title={name}>{name}</h1>
        <span className={styles.badge}>{data.artifactType}</span>
        {data.isPublic && <span className={styles.badge}>public</span>}
        {data.tags.map((it) => (
          <span key={it} className={styles.badge}>
            {it}
          </span>
        ))}
      </header>
      <div className={styles.columns}>
        <div className={styles.column}>
          {data.description && <p className={styles.text}>{data.description}</p>}
          <section className={styles.section} aria-labelledby="versions">
            <div className={styles.sectionHeader}>
              <h2 id="versions">Versions</h2>
              <span className={styles.faint}>{toCountOf(data.versions.length, 'version')}</span>
            </div>
            {data.versions.length === 0 ? (
              <EmptyPlace title="No version">All of them were deleted.</EmptyPlace>
            ) : (
              <Versions versions={data.versions} workspace={workspace} name={name} />
            )}
          </section>
        </div>
        <div className={styles.column}>
          <section className={styles.section} aria-labelledby="about">
            <div className={styles.sectionHeader}>
              <h2 id="about">About</h2>
            </div>
            <dl className={styles.facts}>
              <div>
                <dt>Project</dt>
                <dd>
                  {data.project ? (
                    <PageLink path={toPagePath(workspace, data.project)}>{data.project}</PageLink>
                  ) : (
                    <span className={styles.faint}>deleted</span>
                  )}
                </dd>
              </div>
              <div>
                <dt>By</dt>
                <dd>{data.owner}</dd>
              </div>
              <div>
                <dt>Size</dt>
                <dd>{`${toBytes(data.sizeInBytes)} in all versions`}</dd>
              </div>
              <div>
                <dt>Readers</dt>
                <dd>{data.isPublic ? 'everybody in the organization' : 'members of the workspace'}</dd>
              </div>
            </dl>
          </section>
          <Metadata text={data.metadata} />
        </div>
      </div>
    </div>
  )
}
