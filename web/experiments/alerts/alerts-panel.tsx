import { useQuery } from '@tanstack/react-query'
import { project as projectQuery } from '../../api/projects.ts'
import { trainingFirings } from '../../api/training-alerts.ts'
import { toPagePath } from '../../kit/page-link.tsx'
import { ErrorPlace, LoadingPlace } from '../../kit/places.tsx'
import styles from './alerts.module.css'
import { RunFirings } from './run-firings.tsx'

const listedMax = 20

type Props = { workspace: string; project: string }

/** What the rules on the runs of a project found, on a dashboard. */
export function AlertsPanel({ workspace, project: name }: Props) {
  const project = useQuery(projectQuery(workspace, name))
  const projectId = project.data?.projectId
  const firings = useQuery({
    ...trainingFirings({ workspaceName: workspace, projectId: projectId ?? '' }),
    enabled: projectId !== undefined,
  })
  const error = project.error ?? firings.error
  if (error && !firings.data) {
    return <ErrorPlace error={error} onRetry={() => void Promise.all([project.refetch(), firings.refetch()])} />
  }
  if (!firings.data) return <LoadingPlace rows={3} />
  if (firings.data.firings.length === 0) return <p className={styles.soft}>None has fired yet.</p>
  return <RunFirings firings={firings.data.firings} path={toPagePath(workspace, name)} listedMax={listedMax} />
}
