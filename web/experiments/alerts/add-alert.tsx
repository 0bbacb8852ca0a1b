import { useQuery, useQueryClient } from '@tanstack/react-query'
import { useId, useState } from 'react'
import { knownColumns } from '../../api/runs.ts'
import { addTrainingRule, type Measure, refreshTrainingAlerts, type Watched } from '../../api/training-alerts.ts'
import { FormDialog } from '../../kit/dialog.tsx'
import { Input, Select, TextField } from '../../kit/field.tsx'
import styles from './alerts.module.css'
import { lengths, toLength } from './words.ts'

type Kind = 'above' | 'below' | 'nan' | 'silent' | 'crashed'

const kinds: Record<Kind, { label: string; measure: Measure; comparison?: 'above' | 'below' }> = {
  above: { label: 'A metric is above a value', measure: 'metric', comparison: 'above' },
  below: { label: 'A metric is below a value', measure: 'metric', comparison: 'below' },
  nan: { label: 'A metric is NaN', measure: 'metricNaN' },
  silent: { label: 'A metric has no new point', measure: 'metricPoints' },
  crashed: { label: 'A run crashes or falls silent', measure: 'runCrashed' },
}

type Props = {
  watched: Watched
  project: string
  /** The name of the run, where one is looked at. */
  runName: string | undefined
  onClose(): void
}

/** Makes a rule on one run, or on all runs of the project. */
export function AddAlert({ watched, project, runName, onClose }: Props) {
  const [kind, setKind] = useState<Kind>('above')
  const [metric, setMetric] = useState('')
  const [threshold, setThreshold] = useState('')
  const [windowMs, setWindowMs] = useState(lengths[0] as number)
  const [title, setTitle] = useState('')
  const [isOnRun, setOnRun] = useState(watched.experimentKey !== undefined)
  const id = useId()
  const client = useQueryClient()
  const { workspaceName, projectId, experimentKey } = watched
  const columns = useQuery(knownColumns(workspaceName, project)).data ?? []
  const metrics = [...new Set(columns.flatMap((it) => (it.source === 'metric' ? [it.name] : [])))]
  const { measure, comparison } = kinds[kind]
  const takesMetric = measure !== 'runCrashed'
  const takesThreshold = measure === 'metric'
  const isRight =
    (!takesMetric || metric.trim() !== '') &&
    (!takesThreshold || (threshold.trim() !== '' && !Number.isNaN(Number(threshold))))
  const proposed = takesMetric ? `${metric.trim() || 'metric'} ${toShort(kind, threshold)}` : 'crashed or silent'
  return (
    <FormDialog
      title="Add an alert"
      action="Save alert"
      width={560}
      canSubmit={isRight}
      onClose={onClose}
      onSubmit={async () => {
        await addTrainingRule({
          workspaceName,
          ...(isOnRun && experimentKey !== undefined ? { experimentKey } : { projectId }),
          name: title.trim() || proposed,
          measure,
          ...(takesMetric && { metricName: metric.trim() }),
          ...(comparison && { comparison }),
          ...(takesThreshold && { threshold: Number(threshold) }),
          windowMs,
        })
        await refreshTrainingAlerts(client, watched)
      }}
    >
      <div className={styles.field}>
        <label htmlFor={`${id}-kind`}>When</label>
        <Select id={`${id}-kind`} value={kind} onChange={(event) => setKind(event.target.value as Kind)}>
          {Object.entries(kinds).map(([value, { label }]) => (
            <option key={value} value={value}>
              {label}
            </option>
          ))}
        </Select>
      </div>
      {takesMetric && (
        <div className={styles.row}>
          <div className={styles.field}>
            <label htmlFor={`${id}-metric`}>Metric</label>
            <Input
              id={`${id}-metric`}
              list={`${id}-metrics`}
              value={metric}
              onChange={(event) => setMetric(event.target.value)}
            />
            <datalist id={`${id}-metrics`}>
              {metrics.map((it) => (
                <option key={it} value={it} />
              ))}
            </datalist>
          </div>
          {takesThreshold && (
            <TextField
              label="Value"
              inputMode="decimal"
              value={threshold}
              onChange={(event) => setThreshold(event.target.value)}
            />
          )}
        </div>
      )}
      <div className={styles.row}>
        <div className={styles.field}>
          <label htmlFor={`${id}-window`}>Looked at</label>
          <Select id={`${id}-window`} value={windowMs} onChange={(event) => setWindowMs(Number(event.target.value))}>
            {lengths.map((it) => (
              <option key={it} value={it}>
                {toLength(it)}
              </option>
            ))}
          </Select>
        </div>
        {runName !== undefined && (
          <div className={styles.field}>
            <label htmlFor={`${id}-on`}>On</label>
            <Select
              id={`${id}-on`}
              value={isOnRun ? 'run' : 'project'}
              onChange={(event) => setOnRun(event.target.value === 'run')}
            >
              <option value="run">{`this run: ${runName}`}</option>
              <option value="project">all runs of the project</option>
            </Select>
          </div>
        )}
      </div>
      <TextField
        label="Name"
        maxLength={200}
        placeholder={proposed}
        value={title}
        onChange={(event) => setTitle(event.target.value)}
      />
      <p className={styles.soft}>
        A run is told of once, and again only after a time in which it was all right. Webhooks for “alert fired” get a
        sentence that Slack shows as it is.
      </p>
    </FormDialog>
  )
}

function toShort(kind: Kind, threshold: string): string {
  if (kind === 'nan') return 'is NaN'
  if (kind === 'silent') return 'has no points'
  return `${kind === 'above' ? '>' : '<'} ${threshold.trim()}`.trim()
}
