import { useQuery, useQueryClient } from '@tanstack/react-query'
import { useEffect, useId, useState } from 'react'
import { addSegment, countOfFilters, driftMap, type Filter, type Name } from '../api/monitoring.ts'
import { Button, IconButton } from '../kit/button.tsx'
import { FormDialog } from '../kit/dialog.tsx'
import { Input, Select, TextField } from '../kit/field.tsx'
import { PlusIcon, TrashIcon } from '../kit/icons.tsx'
import { toCount } from '../kit/text.ts'
import styles from './production.module.css'
import { dayMs } from './words.ts'

const operators = ['equals', 'not equals', 'in', 'below', 'at most', 'above', 'at least', 'missing', 'present']
const writtenMs = 400

type Draft = { key: number; feature: string; operator: string; text: string }

/** A value as it was typed: a number or a boolean if it looks like one, unless it stands in quotes. */
function toTyped(text: string): string | number | boolean {
  if (/^".*"$/.test(text)) return text.slice(1, -1)
  if (text === 'true' || text === 'false') return text === 'true'
  return text.trim() !== '' && Number.isFinite(Number(text)) ? Number(text) : text
}

const takesNone = (operator: string) => operator === 'missing' || operator === 'present'

function toFilters(drafts: Draft[]): Filter[] | undefined {
  const filters = drafts.map(({ feature, operator, text }): Filter | undefined => {
    if (feature === '') return undefined
    if (takesNone(operator)) return { feature, operator }
    const values = operator === 'in' ? text.split(',').map((it) => it.trim()) : [text]
    return text === '' ? undefined : { feature, operator, values: values.map(toTyped) }
  })
  return filters.includes(undefined) ? undefined : (filters as Filter[])
}

type Props = { name: Name; hasReference: boolean; onClose(): void }

/** Saves a segment, and says how many events it has meanwhile. */
export function AddSegment({ name, hasReference, onClose }: Props) {
  const [title, setTitle] = useState('')
  const [drafts, setDrafts] = useState<Draft[]>([{ key: 0, feature: '', operator: 'equals', text: '' }])
  const listId = useId()
  const client = useQueryClient()
  const features = useQuery(driftMap({ ...name, interval: dayMs }, { hasReference })).data?.features ?? []
  const filters = toFilters(drafts)
  const asked = useLater(JSON.stringify(filters ?? null))
  const counted = useQuery({
    queryKey: ['monitoring', name.workspaceName, name.modelName, 'count', asked],
    queryFn: ({ signal }) => countOfFilters(name, JSON.parse(asked) as Filter[], signal),
    enabled: asked !== 'null',
    retry: false,
  })
  const change = (key: number, it: Partial<Draft>) =>
    setDrafts(drafts.map((old) => (old.key === key ? { ...old, ...it } : old)))
  return (
    <FormDialog
      title="Add a segment"
      action="Save segment"
      width={560}
      canSubmit={title.trim() !== '' && filters !== undefined}
      onClose={onClose}
      onSubmit={() => addSegment(client, name, { name: title.trim(), filters: filters ?? [] })}
    >
      <TextField label="Name" maxLength={200} value={title} onChange={(event) => setTitle(event.target.value)} />
      <datalist id={listId}>
        {features.map((it) => (
          <option key={`${it.part} ${it.name}`} value={it.name} />
        ))}
      </datalist>
      {drafts.map((it, nth) => (
        <div key={it.key} className={styles.filter} role="group" aria-label={`Filter ${nth + 1}`}>
          <Input
            aria-label="Feature"
            placeholder="Feature"
            list={listId}
            value={it.feature}
            onChange={(event) => change(it.key, { feature: event.target.value })}
          />
          <Select
            aria-label="Operator"
            value={it.operator}
            onChange={(event) => change(it.key, { operator: event.target.value })}
          >
            {operators.map((operator) => (
              <option key={operator}>{operator}</option>
            ))}
          </Select>
          <Input
            aria-label="Value"
            placeholder={takesNone(it.operator) ? '' : it.operator === 'in' ? 'NL, DE' : 'Value'}
            disabled={takesNone(it.operator)}
            value={takesNone(it.operator) ? '' : it.text}
            onChange={(event) => change(it.key, { text: event.target.value })}
          />
          <IconButton
            label={`Remove filter ${nth + 1}`}
            disabled={drafts.length === 1}
            onClick={() => setDrafts(drafts.filter((other) => other !== it))}
          >
            <TrashIcon size={14} />
          </IconButton>
        </div>
      ))}
      <div className={styles.find}>
        <Button
          size="small"
          disabled={drafts.length >= 10}
          onClick={() =>
            setDrafts([...drafts, { key: (drafts.at(-1)?.key ?? 0) + 1, feature: '', operator: 'equals', text: '' }])
          }
        >
          <PlusIcon size={14} /> And
        </Button>
        <span role="status" className={styles.soft}>
          {counted.error
            ? counted.error.message
            : counted.data !== undefined && `${toCount(counted.data)} events meet it`}
        </span>
      </div>
    </FormDialog>
  )
}

/** A text, once it was not changed for a moment. */
export function useLater(text: string): string {
  const [later, setLater] = useState(text)
  useEffect(() => {
    const timer = setTimeout(() => setLater(text), writtenMs)
    return () => clearTimeout(timer)
  }, [text])
  return later
}
