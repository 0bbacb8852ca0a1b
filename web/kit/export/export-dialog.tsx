import { type ReactNode, useId, useState } from 'react'
import { type Exported, type ExportScope, toExportUrl } from '../../api/exports.ts'
import { Button, ButtonLink } from '../button.tsx'
import { Dialog } from '../dialog.tsx'
import { Select } from '../field.tsx'
import styles from './export-dialog.module.css'

const formats = [
  ['parquet', 'Parquet', 'For pandas, polars and DuckDB. Small, and keeps every type and digit.'],
  ['csv', 'CSV', 'For spreadsheets and everything else.'],
  ['jsonl', 'JSON lines', 'An object on each line.'],
  ['arrow', 'Arrow stream', 'For readers of Arrow. Keeps every type and digit, and is large.'],
] as const

type Choice<Value> = { value: Value; label: ReactNode; about?: ReactNode }

type Props = {
  title: string
  /** What a file can have; a single one is not asked for. */
  choices: Choice<Exported>[]
  /** Of what; a single one is not asked for. */
  scopes: (Choice<ExportScope> & { id: string })[]
  onClose(): void
}

/** Chooses what a file has and in which format, and downloads it. */
export function ExportDialog({ title, choices, scopes, onClose }: Props) {
  const [what, setWhat] = useState<Exported>(choices[0]?.value ?? 'runs')
  const [scopeId, setScopeId] = useState(scopes[0]?.id as string)
  const [format, setFormat] = useState<string>('parquet')
  const formatId = useId()
  const scope = (scopes.find((it) => it.id === scopeId) ?? scopes[0])?.value
  return (
    <DownloadDialog title={title} href={toExportUrl(what, { ...scope, format })} onClose={onClose}>
      {choices.length > 1 && <Choices label="What" value={what} onChange={setWhat} choices={choices} />}
      {scopes.length > 1 ? (
        <Choices
          label="Of"
          value={scopeId}
          onChange={setScopeId}
          choices={scopes.map((it) => ({ ...it, value: it.id }))}
        />
      ) : (
        <p>{scopes[0]?.label}</p>
      )}
      <div className={styles.format}>
        <label htmlFor={formatId}>Format</label>
        <Select
          id={formatId}
          aria-describedby={`${formatId}-about`}
          value={format}
          onChange={(event) => setFormat(event.target.value)}
        >
          {formats.map(([value, label]) => (
            <option key={value} value={value}>
              {label}
            </option>
          ))}
        </Select>
        <span id={`${formatId}-about`} className={styles.about}>
          {formats.find(([value]) => value === format)?.[2]}
        </span>
      </div>
    </DownloadDialog>
  )
}

type ArchiveProps = { workspaceName: string; projectName: string; onClose(): void }

/** Downloads a whole project, for another server. */
export function ArchiveDialog({ workspaceName, projectName, onClose }: ArchiveProps) {
  return (
    <DownloadDialog
      title={`Archive of ${projectName}`}
      href={toExportUrl('archive', { workspaceName, projectName })}
      onClose={onClose}
    >
      <p>
        One file with the whole project: its runs with everything they logged, files, artifacts, notes and views. An
        admin takes it into another server with <code>svc import</code>, where it reads the same.
      </p>
      <p className={styles.about}>Owners of the workspace and admins may download it.</p>
    </DownloadDialog>
  )
}

type DownloadProps = { title: string; href: string; children: ReactNode; onClose(): void }

/** The link opens a tab, which the browser closes when a file comes; when none does, the tab shows why. */
function DownloadDialog({ title, href, children, onClose }: DownloadProps) {
  const [isBegun, setBegun] = useState(false)
  return (
    <Dialog title={title} onClose={onClose} width={520}>
      <div className={styles.body}>
        {children}
        <p className={styles.about} role="status">
          {isBegun
            ? 'The browser shows how far it is. The next export can begin once this one has ended.'
            : 'It is written while it is read, however large it is. A user has one export at a time.'}
        </p>
        <footer className={styles.footer}>
          <Button look="quiet" onClick={onClose}>
            Close
          </Button>
          <ButtonLink look="primary" href={href} target="_blank" rel="noopener" onClick={() => setBegun(true)}>
            Download
          </ButtonLink>
        </footer>
      </div>
    </Dialog>
  )
}

type ChoicesProps<Value> = {
  label: string
  value: NoInfer<Value>
  onChange(value: NoInfer<Value>): void
  choices: Choice<Value>[]
}

function Choices<Value extends string>({ label, value, onChange, choices }: ChoicesProps<Value>) {
  const name = useId()
  return (
    <fieldset className={styles.choices}>
      <legend>{label}</legend>
      {choices.map((it) => (
        <label key={it.value} className={styles.choice}>
          <input type="radio" name={name} checked={it.value === value} onChange={() => onChange(it.value)} />
          <span className={styles.text}>
            {it.label}
            {it.about && <span className={styles.about}>{it.about}</span>}
          </span>
        </label>
      ))}
    </fieldset>
  )
}
