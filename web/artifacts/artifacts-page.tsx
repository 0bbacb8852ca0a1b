import { useQuery } from '@tanstack/react-query'
import { getRouteApi, Link } from '@tanstack/react-router'
import { type Artifact, artifacts } from '../api/artifacts/artifacts.ts'
import { Select } from '../kit/field.tsx'
import { PageLink, toPagePath } from '../kit/page-link.tsx'
import { EmptyPlace, ErrorPlace, LoadingPlace } from '../kit/places.tsx'
import { SearchField } from '../kit/search-field.tsx'
import { toBytes, toCount, toCountOf } from '../kit/text.ts'
import styles from './artifacts.module.css'
import type { ArtifactsSearch } from './artifacts-search.ts'

const route = getRouteApi('/$workspace/-/artifacts')

const againMs = 10_000

/** The artifacts of a workspace, or those that began in one of its projects. */
export function ArtifactsPage() {
  const { workspace } = route.useParams()
  const { search = '', type, project } = route.useSearch()
  const navigate = route.useNavigate()
  const { data, error, refetch } = useQuery({ ...artifacts(workspace), refetchInterval: againMs })
  if (error && !data) return <ErrorPlace error={error} onRetry={refetch} />
  if (!data) return <LoadingPlace />
  const change = (it: ArtifactsSearch) => void navigate({ search: (old) => ({ ...old, ...it }), replace: true })
  const words = search.toLowerCase()
  const shown = data.filter(
    (it) =>
      (type === undefined || it.artifactType === type) &&
      (project === undefined || it.project === project) &&
      `${it.artifactName} ${it.description ?? ''} ${it.tags.join(' ')}`.toLowerCase().includes(words),
  )
  const listAll = (of: (it: Artifact) => string | null) =>
    [...new Set(data.map(of))].filter((it) => it !== null).toSorted()
  return (
    <div className={styles.page}>
      <title>{`Artifacts · ${workspace} · svc`}</title>
      <header className={styles.header}>
        <h1>Artifacts</h1>
        {data.length > 0 && (
          <span className={styles.faint} role="status">
            {shown.length === data.length
              ? toCountOf(data.length, 'artifact')
              : `${toCount(shown.length)} of ${toCountOf(data.length, 'artifact')}`}
          </span>
        )}
      </header>
      {data.length === 0 ? (
        <EmptyPlace title="No artifact">
          <p>
            An artifact is a set of files under a name, such as a data set, in versions that never change. Runs make
            versions and use them; the lineage shows which.
          </p>
          <p>
            <code>experiment.log_artifact("dataset", "data/", aliases=["clean"])</code>
          </p>
        </EmptyPlace>
      ) : (
        <>
          <div className={styles.tools}>
            <SearchField
              label="Search artifacts"
              placeholder="Name, description or tag"
              className={styles.search}
              text={search}
              onChange={(text) => change({ search: text || undefined })}
            />
            <Select
              aria-label="Type"
              value={type ?? ''}
              onChange={(event) => change({ type: event.target.value || undefined })}
            >
              <option value="">All types</option>
              {listAll((it) => it.artifactType).map((it) => (
                <option key={it}>{it}</option>
              ))}
            </Select>
            <Select
              aria-label="Project"
              value={project ?? ''}
              onChange={(event) => change({ project: event.target.value || undefined })}
            >
              <option value="">All projects</option>
              {listAll((it) => it.project).map((it) => (
                <option key={it}>{it}</option>
              ))}
            </Select>
          </div>
          {shown.length === 0 ? (
            <EmptyPlace title="No artifact matches">None is as you have chosen.</EmptyPlace>
          ) : (
            <Table artifacts={shown} workspace={workspace} />
          )}
        </>
      )}
    </div>
  )
}

function Table({ artifacts, workspace }: { artifacts: Artifact[]; workspace: string }) {
  return (
    <div className={styles.frame}>
      <table className={styles.table}>
        <thead>
          <tr>
            <th scope="col">Artifact</th>
            <th scope="col">Type</th>
            <th scope="col">Latest</th>
            <th scope="col" className={styles.number}>
              Size
            </th>
            <th scope="col">Project</th>
            <th scope="col">By</th>
          </tr>
        </thead>
        <tbody>
          {artifacts.map((it) => (
            <tr key={it.artifactId}>
              <td>
                <div className={styles.name}>
                  <Link
                    to="/$workspace/-/artifacts/$artifact"
                    params={{ workspace, artifact: it.artifactName }}
                    title={it.artifactName}
                  >
                    {it.artifactName}
                  </Link>
                  {it.isPublic && <span className={styles.badge}>public</span>}
                  {it.tags.map((tag) => (
                    <span key={tag} className={styles.badge}>
                      {tag}
                    </span>
                  ))}
                </div>
                {it.description && (
                  <p className={styles.second} title={it.description}>
                    {it.description}
                  </p>
                )}
              </td>
              <td className={styles.soft}>{it.artifactType}</td>
              <td>
                {it.latestVersion === null ? (
                  <span className={styles.faint}>none</span>
                ) : (
                  <Link
                    to="/$workspace/-/artifacts/$artifact/$version"
                    params={{ workspace, artifact: it.artifactName, version: it.latestVersion }}
                  >
                    {it.latestVersion}
                  </Link>
                )}
              </td>
              <td className={styles.number}>{toBytes(it.sizeInBytes)}</td>
              <td>{it.project && <PageLink path={toPagePath(workspace, it.project)}>{it.project}</PageLink>}</td>
              <td className={styles.soft}>{it.owner}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}
