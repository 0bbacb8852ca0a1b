import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { artifact } from '../api/artifacts/artifacts.ts'
import { ErrorPlace, LoadingPlace } from '../kit/places.tsx'
import { toCount } from '../kit/text.ts'
import styles from './artifacts.module.css'
import { Versions } from './versions.tsx'

const againMs = 10_000
const shownMax = 10

type Props = { workspace: string; content: { artifactName: string } }

/** The last versions of an artifact, on a dashboard; it says how many more there are. */
export function ArtifactPanel({ workspace, content: { artifactName } }: Props) {
  const { data, error, refetch } = useQuery({ ...artifact(workspace, artifactName), refetchInterval: againMs })
  if (error && !data) return <ErrorPlace error={error} onRetry={refetch} />
  if (!data) return <LoadingPlace rows={3} />
  const rest = data.versions.length - shownMax
  return (
    <>
      <Versions versions={data.versions.slice(0, shownMax)} workspace={workspace} name={artifactName} />
      {data.versions.length === 0 && <p className={styles.faint}>It has no version any more.</p>}
      {rest > 0 && (
        <Link to="/$workspace/-/artifacts/$artifact" params={{ workspace, artifact: artifactName }}>
          {`${toCount(rest)} more`}
        </Link>
      )}
    </>
  )
}
