import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { versions } from '../api/registry.ts'
import { ErrorPlace, LoadingPlace } from '../kit/places.tsx'
import { toCount } from '../kit/text.ts'
import styles from './registry.module.css'
import { Versions } from './versions.tsx'

const againMs = 10_000
const shownMax = 10

type Props = { workspace: string; content: { modelName: string } }

/** The last versions of a registered model with their stages, on a dashboard. Stages are changed on its own page. */
export function VersionsPanel({ workspace, content: { modelName } }: Props) {
  const name = { workspaceName: workspace, modelName }
  const { data, error, refetch } = useQuery({ ...versions(name), refetchInterval: againMs })
  if (error && !data) return <ErrorPlace error={error} onRetry={refetch} />
  if (!data) return <LoadingPlace rows={3} />
  const rest = data.length - shownMax
  return (
    <>
      <Versions versions={data.slice(0, shownMax)} {...name} isWritable={false} />
      {data.length === 0 && <p className={styles.faint}>It has no version.</p>}
      {rest > 0 && (
        <Link to="/$workspace/-/models/$model" params={{ workspace, model: modelName }}>
          {`${toCount(rest)} more`}
        </Link>
      )}
    </>
  )
}
