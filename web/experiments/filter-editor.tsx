import { type FormEvent, useState } from 'react'
import type { ColumnType } from '../api/runs.ts'
import { Button } from '../kit/button.tsx'
import { Input, Select } from '../kit/field.tsx'
import { type Choice, ColumnPicker } from './column-picker.tsx'
import { parseColumnId, toHint, toLabel } from './columns.ts'
import styles from './filter-editor.module.css'
import type { Filter } from './runs-search.ts'

type Operator = { value: string; label: string; needsValue?: false }

const presence: Operator[] = [
  { value: 'is_not_null', label: 'is there', needsValue: false },
  { value: 'is_null', label: 'is missing', needsValue: false },
]
const comparisons: Operator[] = [
  { value: '<', label: '<' },
  { value: '<=', label: '≤' },
  { value: '>', label: '>' },
  { value: '>=', label: '≥' },
  { value: '=', label: '=' },
  { value: '!=', label: '≠' },
]
const words: Operator[] = [
  { value: 'contains', label: 'contains' },
  { value: 'not_contains', label: 'does not contain' },
  { value: '=', label: 'is' },
  { value: '!=', label: 'is not' },
  { value: 'begins_with', label: 'begins with' },
]
const operators: Record<ColumnType, Operator[]> = {
  number: [...comparisons, ...presence],
  duration: comparisons,
  time: [
    { value: '>=', label: 'from' },
    { value: '<', label: 'before' },
  ],
  text: [...words, ...presence],
  boolean: [{ value: '=', label: 'is' }],
  tags: [
    { value: '=', label: 'has' },
    { value: '!=', label: 'has not' },
  ],
}
/** The types that predicates have for them. Durations are in seconds. */
const types: Record<ColumnType, string> = {
  number: 'double',
  duration: 'timenumber',
  time: 'datetime',
  text: 'string',
  boolean: 'boolean',
  tags: 'string',
}

/** Makes one rule: choose a column, then what its value must be. */
export function FilterEditor({ known, onDone }: { known: Choice[]; onDone(rule: Filter): void }) {
  const [choice, setChoice] = useState<Choice>()
  const [operator, setOperator] = useState<string>()
  const [value, setValue] = useState('')
  if (!choice) {
    // Predicates know neither the least nor the greatest value of a metric.
    return <ColumnPicker known={known.filter((it) => it.id !== 'state')} onChoose={setChoice} />
  }
  const possible = operators[choice.type]
  const chosen = possible.find((it) => it.value === operator) ?? (possible[0] as Operator)
  const needsValue = chosen.needsValue !== false
  const isComplete = !needsValue || value.trim() !== ''
  function submit(event: FormEvent) {
    event.preventDefault()
    if (!isComplete || !choice) return
    const given = choice.type === 'time' ? String(Date.parse(value)) : value.trim()
    onDone([choice.id, chosen.value, needsValue ? given : '', types[choice.type]])
  }
  return (
    <form className={styles.editor} onSubmit={submit}>
      <p className={styles.name}>{toLabel(choice)}</p>
      <Select aria-label="Comparison" value={chosen.value} onChange={(event) => setOperator(event.target.value)}>
        {possible.map((it) => (
          <option key={it.value} value={it.value}>
            {it.label}
          </option>
        ))}
      </Select>
      {needsValue &&
        (choice.type === 'boolean' ? (
          <Select aria-label="Value" value={value} onChange={(event) => setValue(event.target.value)}>
            <option value="" />
            <option value="true">yes</option>
            <option value="false">no</option>
          </Select>
        ) : (
          <Input
            autoFocus
            aria-label="Value"
            type={choice.type === 'time' ? 'datetime-local' : 'text'}
            inputMode={choice.type === 'number' ? 'decimal' : undefined}
            placeholder={choice.type === 'duration' ? 'seconds' : 'value'}
            value={value}
            onChange={(event) => setValue(event.target.value)}
          />
        ))}
      <div className={styles.buttons}>
        <Button look="quiet" onClick={() => setChoice(undefined)}>
          Back
        </Button>
        <Button type="submit" look="primary" disabled={!isComplete}>
          Add filter
        </Button>
      </div>
    </form>
  )
}

/** `lr < 0.1`. */
export function toRuleText([id, operator, value, type]: Filter): string {
  const column = parseColumnId(id)
  const label = [toLabel(column), toHint(column)].filter(Boolean).join(' ')
  const kind = (Object.keys(types) as ColumnType[]).find(
    (it) => types[it] === type && (it === 'tags') === (id === 'tags'),
  )
  const word = operators[kind ?? 'text'].find((it) => it.value === operator)?.label ?? operator
  const shown = kind === 'time' ? new Date(Number(value)).toLocaleString() : value
  return [label, word, shown].filter((it) => it !== '').join(' ')
}
