import { useQuery, useQueryClient } from '@tanstack/react-query'
import { useId, useState } from 'react'
import { type Limits, limits, type Session, setLimits } from '../api/accounts.ts'
import { Button } from '../kit/button.tsx'
import { Select, TextField } from '../kit/field.tsx'
import { ErrorPlace, LoadingPlace } from '../kit/places.tsx'
import { toast, toastError } from '../kit/toast.tsx'
import styles from './settings.module.css'

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

/** Limits of a workspace, for admins. */
export function LimitsSection({ reader }: { reader: Session }) {
  const [workspaceName, setWorkspace] = useState(reader.defaultWorkspaceName ?? reader.workspaceNames[0] ?? '')
  const { data, error, refetch } = useQuery({ ...limits(workspaceName), enabled: workspaceName !== '' })
  const selectId = useId()
  return (
    <>
      <p className={styles.intro}>
        Every experiment of the workspace is held to these. An empty field takes the setting of the service. They apply
        within ten seconds.
      </p>
      <div className={styles.tools}>
        <label htmlFor={selectId}>Workspace</label>
        <Select id={selectId} value={workspaceName} onChange={(event) => setWorkspace(event.target.value)}>
          {reader.workspaceNames.map((it) => (
            <option key={it}>{it}</option>
          ))}
        </Select>
      </div>
      {error ? (
        <ErrorPlace error={error} onRetry={refetch} />
      ) : data ? (
        <LimitsForm key={workspaceName} workspaceName={workspaceName} given={data} />
      ) : (
        <LoadingPlace rows={4} />
      )}
    </>
  )
}

function LimitsForm({ workspaceName, given }: { workspaceName: string; given: Limits }) {
  const [texts, setTexts] = useState<Record<string, string>>({})
  const client = useQueryClient()
  async function save(event: React.FormEvent) {
    event.preventDefault()
    const changed = Object.entries(texts).map(([name, text]) => [name, text.trim() === '' ? null : Number(text)])
    try {
      await setLimits(workspaceName, Object.fromEntries(changed))
      setTexts({})
      await client.invalidateQueries(limits(workspaceName))
      toast('The limits are saved.')
    } catch (reason) {
      toastError(reason)
    }
  }
  return (
    <form onSubmit={save} className={styles.section}>
      <div className={styles.limits}>
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
