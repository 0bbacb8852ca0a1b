import { useQuery } from '@tanstack/react-query'
import { useId, useState } from 'react'
import type { KeyFacts, NewKeyFields, Scope } from '../../api/accounts.ts'
import { projects } from '../../api/projects.ts'
import { FormDialog } from '../dialog.tsx'
import { Select, TextField } from '../field.tsx'
import { toTime } from '../text.ts'
import styles from './keys.module.css'

const scopes: Record<Scope, string> = {
  read: 'Read',
  write: 'Read and log',
  all: 'Everything its owner may',
}

const dayMs = 24 * 3_600_000

/** Days until the key ends, by what they are called. */
const ends = { '7 days': 7, '30 days': 30, '90 days': 90, 'one year': 365 }

type Props = {
  title: string
  /** Where the key may be of use; without a choice it is of use everywhere. */
  workspaceNames: string[]
  onClose(): void
  make(fields: NewKeyFields): Promise<void>
}

/** What a new key is called and may do. */
export function MakeKey({ title, workspaceNames, onClose, make }: Props) {
  const [name, setName] = useState('')
  const [scope, setScope] = useState<Scope>('all')
  const [workspaceName, setWorkspace] = useState('')
  const [projectName, setProject] = useState('')
  const [days, setDays] = useState(0)
  const { data: listed } = useQuery({ ...projects(workspaceName), enabled: workspaceName !== '' })
  return (
    <FormDialog
      title={title}
      action="Make key"
      onClose={onClose}
      onSubmit={() =>
        make({
          scope,
          ...(name.trim() !== '' && { name: name.trim() }),
          ...(workspaceName !== '' && { workspaceName }),
          ...(projectName !== '' && { projectName }),
          ...(days > 0 && { expiresAt: Date.now() + days * dayMs }),
        })
      }
    >
      <TextField
        label="Name"
        hint="Where it is used, such as “laptop” or “cluster”. May be left empty."
        autoFocus
        maxLength={100}
        value={name}
        onChange={(event) => setName(event.target.value)}
      />
      <Choice label="May" value={scope} onChange={(it) => setScope(it as Scope)}>
        {Object.entries(scopes).map(([value, text]) => (
          <option key={value} value={value}>
            {text}
          </option>
        ))}
      </Choice>
      <Choice
        label="Workspace"
        value={workspaceName}
        onChange={(it) => {
          setWorkspace(it)
          setProject('')
        }}
      >
        <option value="">Every workspace</option>
        {workspaceNames.map((it) => (
          <option key={it}>{it}</option>
        ))}
      </Choice>
      {workspaceName !== '' && (
        <Choice label="Project" value={projectName} onChange={setProject}>
          <option value="">All of the workspace</option>
          {listed?.map((it) => (
            <option key={it.projectId}>{it.projectName}</option>
          ))}
        </Choice>
      )}
      <Choice label="Ends" value={String(days)} onChange={(it) => setDays(Number(it))}>
        <option value="0">When it is ended</option>
        {Object.entries(ends).map(([text, value]) => (
          <option key={value} value={value}>
            After {text}
          </option>
        ))}
      </Choice>
    </FormDialog>
  )
}

type ChoiceProps = { label: string; value: string; onChange(value: string): void; children: React.ReactNode }

export function Choice({ label, value, onChange, children }: ChoiceProps) {
  const id = useId()
  return (
    <div className={styles.choice}>
      <label htmlFor={id}>{label}</label>
      <Select id={id} value={value} onChange={(event) => onChange(event.target.value)}>
        {children}
      </Select>
    </div>
  )
}

/** What a key may do, and where. */
export function KeyRights({ scope, workspaceName, projectName }: KeyFacts) {
  const place = [workspaceName, projectName].filter(Boolean).join('/')
  return (
    <span className={styles.rights}>
      {{ read: 'read', write: 'read and log', all: 'everything' }[scope]}
      {place && <span title={place}>{place}</span>}
    </span>
  )
}

/** When a key ends. */
export function KeyEnd({ expiresAt }: KeyFacts) {
  if (expiresAt === null) return <span>no end</span>
  if (expiresAt <= Date.now()) return <span className={styles.ended}>ended</span>
  return <span title={toTime(expiresAt)}>{new Date(expiresAt).toLocaleDateString()}</span>
}
