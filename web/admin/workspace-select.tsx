import { useQuery } from '@tanstack/react-query'
import { useId } from 'react'
import { workspaces } from '../api/admin.ts'
import { Select } from '../kit/field.tsx'
import styles from './admin.module.css'

type Props = { value: string; onChange(workspaceName: string): void; any?: string }

/** Chooses one of all workspaces of the organization; `any` is the choice of none. */
export function WorkspaceSelect({ value, onChange, any }: Props) {
  const { data = [] } = useQuery(workspaces)
  const id = useId()
  const names = data.map((it) => it.workspaceName)
  return (
    <div className={styles.choice}>
      <label htmlFor={id}>Workspace</label>
      <Select id={id} value={value} onChange={(event) => onChange(event.target.value)}>
        {any !== undefined && <option value="">{any}</option>}
        {(value === '' || names.includes(value) ? names : [value, ...names]).map((it) => (
          <option key={it}>{it}</option>
        ))}
      </Select>
    </div>
  )
}
