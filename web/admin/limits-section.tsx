import { useQuery, useQueryClient } from '@tanstack/react-query'
import { type FormEvent, useState } from 'react'
import {
  type Limits,
  limits,
  organizationLimits,
  type Session,
  setLimits,
  setOrganizationLimits,
  tenantUsage,
} from '../api/accounts.ts'
import { Button } from '../kit/button.tsx'
import { TextField } from '../kit/field.tsx'
import { ErrorPlace, LoadingPlace } from '../kit/places.tsx'
import { toast, toastError } from '../kit/toast.tsx'
import { tenantLimits, UsageTable } from '../kit/usage/usage-table.tsx'
import styles from './admin.module.css'
import { useAdminSearch } from './use-admin-search.ts'
import { UsedNow } from './used-now.tsx'
import { WorkspaceSelect } from './workspace-select.tsx'

/** The limits of each experiment of a workspace, as `store/limits.ts` names them. */
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
      <p className={styles.intro}>An empty field takes the setting of the service. Limits apply within ten seconds.</p>
      <div className={styles.tools}>
        <WorkspaceSelect value={workspaceName} onChange={(workspace) => change({ workspace })} />
      </div>
      {error ? (
        <ErrorPlace error={error} onRetry={refetch} />
      ) : data ? (
        <>
          <LimitsForm key={workspaceName} save={(given) => setLimits(workspaceName, given)} given={data}>
            {[
              { title: 'All of the workspace together', fields: tenantLimits },
              { title: 'Each experiment, and each model', fields: shown },
            ]}
          </LimitsForm>
          <TenantNow workspaceName={workspaceName} />
          <UsedNow workspaceName={workspaceName} />
        </>
      ) : (
        <LoadingPlace rows={4} />
      )}
      <OrganizationLimits />
    </>
  )
}

/** Of the workspace, and of all workspaces together. */
function TenantNow({ workspaceName }: { workspaceName: string }) {
  const { data } = useQuery(tenantUsage(workspaceName))
  if (!data) return null
  return (
    <>
      <h2>Used of the workspace</h2>
      <UsageTable label="Usage of the workspace" used={data.workspace} />
      <h2>Used of the organization</h2>
      <UsageTable label="Usage of the organization" used={data.organization} />
    </>
  )
}

function OrganizationLimits() {
  const { data } = useQuery(organizationLimits)
  if (!data) return null
  return (
    <LimitsForm save={setOrganizationLimits} given={data} action="Save for the organization">
      {[{ title: 'All workspaces of the organization together', fields: tenantLimits }]}
    </LimitsForm>
  )
}

type FormProps = {
  given: Limits
  save(given: Record<string, number | null>): Promise<unknown>
  action?: string
  children: { title: string; fields: { name: string; label: string }[] }[]
}

function LimitsForm({ given, save: store, action = 'Save limits', children }: FormProps) {
  const [texts, setTexts] = useState<Record<string, string>>({})
  const client = useQueryClient()
  async function save(event: FormEvent) {
    event.preventDefault()
    const changed = Object.entries(texts).map(([name, text]) => [name, text.trim() === '' ? null : Number(text)])
    try {
      await store(Object.fromEntries(changed))
      // The fields would have what was before until these have come.
      await Promise.all([
        client.invalidateQueries({ queryKey: ['admin'] }),
        client.invalidateQueries({ queryKey: ['usage'] }),
      ])
      // What was typed meanwhile stays.
      setTexts((now) => (now === texts ? {} : now))
      toast('The limits are saved.')
    } catch (reason) {
      toastError(reason)
    }
  }
  return (
    <form onSubmit={save} className={styles.section}>
      {children.map(({ title, fields }) => (
        <div key={title}>
          <h2>{title}</h2>
          <div className={styles.fields}>
            {fields.map(({ name, label }) => (
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
        </div>
      ))}
      <div className={styles.tools}>
        <Button type="submit" look="primary" disabled={Object.keys(texts).length === 0}>
          {action}
        </Button>
      </div>
    </form>
  )
}
