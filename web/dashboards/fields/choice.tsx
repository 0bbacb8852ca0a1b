import { type ReactNode, useId } from 'react'
import type { ContentOf } from '../../api/dashboards.ts'
import { Select } from '../../kit/field.tsx'
import styles from '../dashboards.module.css'
import type { Kind } from '../panel-kinds.ts'

export type Place = { workspace: string; project: string; projectId: string }

/** What the fields of one kind of panel get. */
export type FieldsProps<Of extends Kind> = Place & {
  /** What the panel shows now; undefined for a new one. */
  given: ContentOf<Of> | undefined
  /** Draws the dialog around the fields. `content` is undefined while something is missing. */
  children(content: ContentOf<Of> | undefined, fields: ReactNode): ReactNode
}

type ChoiceProps = { label: string; value: string; onChange(value: string): void; children: ReactNode }

export function Choice({ label, value, onChange, children }: ChoiceProps) {
  const id = useId()
  return (
    <div className={styles.group}>
      <label htmlFor={id}>{label}</label>
      <Select id={id} value={value} onChange={(event) => onChange(event.target.value)}>
        {children}
      </Select>
    </div>
  )
}

type NamesProps = {
  label: string
  names: string[] | undefined
  value: string
  onChange(name: string): void
  /** What stands there when there is none. */
  none: string
}

/** One of some names; one that is there no more is kept until another is chosen. */
export function NameChoice({ label, names, value, onChange, none }: NamesProps) {
  if (names === undefined) return <p className={styles.note}>Loading …</p>
  if (names.length === 0 && value === '') return <p className={styles.note}>{none}</p>
  return (
    <Choice label={label} value={value} onChange={onChange}>
      {(names.includes(value) ? names : [value, ...names]).map((it) => (
        <option key={it}>{it}</option>
      ))}
    </Choice>
  )
}
