import { useQuery } from '@tanstack/react-query'
import { useId, useState } from 'react'
import { type Session, tenantUsage, type Used } from '../api/accounts.ts'
import { Select } from '../kit/field.tsx'
import { ErrorPlace, LoadingPlace } from '../kit/places.tsx'
import { UsageTable } from '../kit/usage/usage-table.tsx'
import styles from './settings.module.css'

const againMs = 10_000

/** What a workspace of the reader uses of its limits. */
export function Usage({ reader }: { reader: Session }) {
  const [workspaceName, setWorkspace] = useState(reader.defaultWorkspaceName ?? reader.workspaceNames[0] ?? '')
  const selectId = useId()
  const enabled = workspaceName !== ''
  const { data, error, refetch } = useQuery({ ...tenantUsage(workspaceName), enabled, refetchInterval: againMs })
  if (!enabled) return <p className={styles.soft}>You are a member of no workspace.</p>
  const hasLimit = (it: Used) => it.max !== null
  return (
    <>
      <p className={styles.intro}>
        What the workspace uses of its limits. What is over one is refused, and the error names it; what was
        acknowledged stays. Admins change limits.
      </p>
      <div className={styles.tools}>
        <label htmlFor={selectId}>Workspace</label>
        <Select id={selectId} value={workspaceName} onChange={(event) => setWorkspace(event.target.value)}>
          {reader.workspaceNames.map((it) => (
            <option key={it}>{it}</option>
          ))}
        </Select>
      </div>
      {error && !data ? (
        <ErrorPlace error={error} onRetry={refetch} />
      ) : data ? (
        <>
          <UsageTable label="Usage of the workspace" used={data.workspace} />
          {data.organization.some(hasLimit) && (
            <>
              <h2>All workspaces of {reader.organizationName}</h2>
              <UsageTable label="Usage of the organization" used={data.organization.filter(hasLimit)} />
            </>
          )}
        </>
      ) : (
        <LoadingPlace rows={6} />
      )}
    </>
  )
}
