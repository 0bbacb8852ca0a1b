import { useQuery, useQueryClient } from '@tanstack/react-query'
import { getRouteApi, Link } from '@tanstack/react-router'
import { useState } from 'react'
import { shareCode } from '../../api/http.ts'
import { project as projectQuery } from '../../api/projects.ts'
import { metadata } from '../../api/run.ts'
import {
  deleteTrainingRule,
  pauseTrainingRule,
  refreshTrainingAlerts,
  type TrainingFiring,
  type TrainingRule,
  trainingFirings,
  trainingRules,
  type Watched,
} from '../../api/training-alerts.ts'
import { Button, IconButton } from '../../kit/button.tsx'
import { FormDialog } from '../../kit/dialog.tsx'
import { PlusIcon, TrashIcon } from '../../kit/icons.tsx'
import { PageLink, toPagePath } from '../../kit/page-link.tsx'
import { EmptyPlace, ErrorPlace, LoadingPlace } from '../../kit/places.tsx'
import { toAgo } from '../../kit/text.ts'
import { toastError } from '../../kit/toast.tsx'
import { useMayWrite } from '../../kit/use-may-write.ts'
import { AddAlert } from './add-alert.tsx'
import styles from './alerts.module.css'
import { RunFirings } from './run-firings.tsx'
import { toCondition, toLength } from './words.ts'

const route = getRouteApi('/$workspace/$project/-/alerts')

/** The alert rules on the runs of a project, or on one of them, and what they found. */
export function AlertsPage() {
  const { workspace, project: name } = route.useParams()
  const { run } = route.useSearch()
  const found = useQuery(projectQuery(workspace, name))
  const projectId = found.data?.projectId
  if (found.error && !found.data) return <ErrorPlace error={found.error} onRetry={() => found.refetch()} />
  if (shareCode() !== undefined) {
    return <EmptyPlace title="Not for guests">Alerts are for the members of the workspace.</EmptyPlace>
  }
  if (projectId === undefined) return <LoadingPlace />
  return <Alerts watched={{ workspaceName: workspace, projectId, ...(run && { experimentKey: run }) }} project={name} />
}

function Alerts({ watched, project }: { watched: Watched; project: string }) {
  const { workspaceName, experimentKey } = watched
  const rules = useQuery(trainingRules(watched))
  const firings = useQuery(trainingFirings(watched))
  const ofRun = useQuery({ ...metadata(experimentKey ?? ''), enabled: experimentKey !== undefined })
  const [isAdding, setAdding] = useState(false)
  const mayWrite = useMayWrite(workspaceName)
  const [deleted, setDeleted] = useState<TrainingRule>()
  const client = useQueryClient()
  const error = rules.error ?? firings.error
  if (error && (!rules.data || !firings.data)) {
    return <ErrorPlace error={error} onRetry={() => void Promise.all([rules.refetch(), firings.refetch()])} />
  }
  if (!rules.data || !firings.data) return <LoadingPlace />
  const runName = experimentKey === undefined ? undefined : (ofRun.data?.experimentName ?? experimentKey)
  const add = mayWrite && (
    <Button look="primary" onClick={() => setAdding(true)}>
      <PlusIcon size={14} /> Add an alert
    </Button>
  )
  async function pause({ alertId, paused }: TrainingRule) {
    await pauseTrainingRule(watched, alertId, !paused)
    await refreshTrainingAlerts(client, watched)
  }
  return (
    <div className={styles.page}>
      <title>{`Alerts · ${runName ?? project} · svc`}</title>
      <header className={styles.header}>
        <h1>{runName === undefined ? 'Alerts' : `Alerts of ${runName}`}</h1>
        {experimentKey !== undefined && (
          <>
            <PageLink path={toPagePath(workspaceName, project, experimentKey)}>The run</PageLink>
            <Link to="/$workspace/$project/-/alerts" params={{ workspace: workspaceName, project }}>
              All of the project
            </Link>
          </>
        )}
        <span className={styles.gap} />
        <PageLink path={`${toPagePath(workspaceName)}/-/webhooks`}>Webhooks</PageLink>
        {rules.data.length > 0 && add}
      </header>
      {rules.data.length === 0 ? (
        <EmptyPlace title="No alert" action={add}>
          An alert tells when a metric is too high, too low or NaN, when no point comes any more, or when a run crashes:
          here, at the bell, and by webhook.
        </EmptyPlace>
      ) : (
        <div className={styles.frame}>
          <table className={styles.table} aria-label="Alerts">
            <thead>
              <tr>
                <th scope="col">Alert</th>
                <th scope="col">Fires when</th>
                <th scope="col">On</th>
                <th scope="col">Looks</th>
                <th scope="col">State</th>
                <th scope="col">
                  <span className="visually-hidden">Actions</span>
                </th>
              </tr>
            </thead>
            <tbody>
              {rules.data.map((it) => (
                <RuleRow
                  key={it.alertId}
                  rule={it}
                  path={toPagePath(workspaceName, project)}
                  last={firings.data.firings.find(({ alertId }) => alertId === it.alertId)}
                  mayWrite={mayWrite}
                  onPause={() => pause(it).catch(toastError)}
                  onDelete={() => setDeleted(it)}
                />
              ))}
            </tbody>
          </table>
        </div>
      )}
      {rules.data.length > 0 && (
        <Firings
          firings={firings.data.firings}
          isCut={firings.data.nextPage !== null}
          path={toPagePath(workspaceName, project)}
        />
      )}
      {isAdding && <AddAlert watched={watched} project={project} runName={runName} onClose={() => setAdding(false)} />}
      {deleted && (
        <FormDialog
          title={`Delete the alert ${deleted.name}?`}
          action="Delete alert"
          danger
          onClose={() => setDeleted(undefined)}
          onSubmit={async () => {
            await deleteTrainingRule(watched, deleted.alertId)
            await refreshTrainingAlerts(client, watched)
          }}
        >
          <p>What it has found goes with it, for good.</p>
        </FormDialog>
      )}
    </div>
  )
}

type RowProps = {
  rule: TrainingRule
  path: string
  last: TrainingFiring | undefined
  mayWrite: boolean
  onPause(): void
  onDelete(): void
}

function RuleRow({ rule, path, last, mayWrite, onPause, onDelete }: RowProps) {
  const { name, experimentKey, windowMs, paused, problem } = rule
  return (
    <tr>
      <td title={name}>{name}</td>
      <td>{toCondition(rule)}</td>
      <td>{experimentKey === null ? 'all runs' : <PageLink path={`${path}/${experimentKey}`}>one run</PageLink>}</td>
      <td className={styles.soft}>{toLength(windowMs)}</td>
      <td>
        {paused ? 'paused' : last ? `fired ${toAgo(last.firedAt)}` : 'quiet'}
        {problem !== null && <span className={styles.soft}>{`: ${problem}`}</span>}
      </td>
      <td className={styles.actions}>
        {mayWrite && (
          <>
            <Button size="small" look="quiet" aria-label={`${paused ? 'Resume' : 'Pause'} ${name}`} onClick={onPause}>
              {paused ? 'Resume' : 'Pause'}
            </Button>
            <IconButton label={`Delete ${name}`} size="small" onClick={onDelete}>
              <TrashIcon size={14} />
            </IconButton>
          </>
        )}
      </td>
    </tr>
  )
}

type FiringsProps = { firings: TrainingFiring[]; isCut: boolean; path: string }

function Firings({ firings, isCut, path }: FiringsProps) {
  if (firings.length === 0) return <p className={styles.soft}>None has fired yet.</p>
  return (
    <section aria-labelledby="fired">
      <h2 id="fired">{isCut ? 'The last 100 that fired' : 'What fired'}</h2>
      <RunFirings firings={firings} path={path} listedMax={firings.length} />
    </section>
  )
}
