import { useQuery, useQueryClient } from '@tanstack/react-query'
import { type FormEvent, useState } from 'react'
import { type Limits, limits, type Session, setLimits } from '../api/accounts.ts'
import { usage } from '../api/admin.ts'
import { Button } from '../kit/button.tsx'
import { TextField } from '../kit/field.tsx'
import { ErrorPlace, LoadingPlace } from '../kit/places.tsx'
import { toast, toastError } from '../kit/toast.tsx'
import styles from './admin.module.css'
import { useAdminSearch } from './use-admin-search.ts'
import { UsedNow } from './used-now.tsx'
import { WorkspaceSelect } from './workspace-select.tsx'

/** The limits that a workspace may have, as `store/limits.ts` names them. */
const shown: { name: string; label: string }[] = [
  { name: 'metricsPerMinute', label: 'Points of metrics a minute' },
  { name: 'systemMetricsPerMinute', label: 'System metrics a minute' },
  { name: 'outputPerMinute', label: 'Output lines a minute' },
  { name: 'parametersPerMinute', label: 'Parameters a minute' },
  { name: 'otherPerMinute', label: 'Other values a minute' },
  { name: 'eventsPerMinute', label: 'Monitoring events a minute' },
  { name: 'metricNamesMax', label: 'Metric names of an experiment' },
  { name: 'pointsPerMetricMax', label: 'Points of a metric' },
]

/** Limits of a workspace, and what is used of them now. */
export function LimitsSection({ reader }: { reader: Session }) {
  const { search, change } = useAdminSearch()
  const workspaceName = search.workspace ?? reader.defaultWorkspaceName ?? reader.workspaceNames[0] ?? ''
  const { data, error, refetch } = useQuery({ ...limits(workspaceName), enabled: workspaceName !== '' })
  return (
    <>
      <p className={styles.intro}>
        Each experiment of the workspace is held to these, and each model to the one of events. An empty field takes the
        setting of the service. They apply within ten seconds.
      </p>
      <div className={styles.tools}>
        <WorkspaceSelect value={workspaceName} onChange={(workspace) => change({ workspace })} />
      </div>
      {error ? (
        <ErrorPlace error={error} onRetry={refetch} />
      ) : data ? (
        <>
          <LimitsForm key={workspaceName} workspaceName={workspaceName} given={data} />
          <UsedNow workspaceName={workspaceName} />
        </>
      ) : (
        <LoadingPlace rows={4} />
      )}
    </>
  )
}

function LimitsForm({ workspaceName, given }: { workspaceName: string; given: Limits }) {
  const [texts, setTexts] = useState<Record<string, string>>({})
  const client = useQueryClient()
  async function save(event: FormEvent) {
    event.preventDefault()
    const changed = Object.entries(texts).map(([name, text]) => [name, text.trim() === '' ? null : Number(text)])
    try {
      await setLimits(workspaceName, Object.fromEntries(changed))
      setTexts({})
      await Promise.all([
        client.invalidateQueries(limits(workspaceName)),
        client.invalidateQueries(usage(workspaceName)),
      ])
      toast('The limits are saved.')
    } catch (reason) {
      toastError(reason)
    }
  }
  return (
    <form onSubmit={save} className={styles.section}>
      <div className={styles.fields}>
        {shown.map(({ name, label }) => (
          <TextField
            key={name}
            label={label}
            type="number"
            min={1}
            step={1}
            placeholder="as the service"
            value={texts[name] ?? given[name] ?? ''}
            onChange={(event) => setTexts({ ...texts, [name]: event.target.value })}
          />
        ))}
      </div>
      <div className={styles.tools}>
        <Button type="submit" look="primary" disabled={Object.keys(texts).length === 0}>
          Save limits
        </Button>
      </div>
    </form>
  )
}
