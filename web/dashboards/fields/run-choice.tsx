import { useQuery } from '@tanstack/react-query'
import type { RunChoice } from '../../api/dashboards.ts'
import { views } from '../../api/views.ts'
import { TextField } from '../../kit/field.tsx'
import { Choice } from './choice.tsx'

const topMax = 100

export type Chosen = { view: string; query: string; top: number }

export const toChosen = (given: (RunChoice & { top?: number }) | undefined, top = 10): Chosen => ({
  view: given?.view ?? '',
  query: given?.query ?? '',
  top: given?.top ?? top,
})

/** As a panel keeps it: what is empty is left out. */
export const toRunChoice = ({ view, query }: Chosen): RunChoice => ({
  ...(view && { view }),
  ...(query.trim() && { query: query.trim() }),
})

type Props = { projectId: string; value: Chosen; onChange(value: Chosen): void }

/** Which runs of the project a panel shows. */
export function RunChoiceFields({ projectId, value, onChange }: Props) {
  const named = useQuery(views(projectId)).data ?? []
  const change = (it: Partial<Chosen>) => onChange({ ...value, ...it })
  return (
    <>
      {named.length > 0 && (
        <Choice label="View" value={value.view} onChange={(view) => change({ view })}>
          <option value="">all runs of the project</option>
          {named.map((it) => (
            <option key={it.id} value={it.id}>
              {it.name}
            </option>
          ))}
        </Choice>
      )}
      <QueryField value={value.query} onChange={(query) => change({ query })} />
      <TextField
        label="Runs at most"
        type="number"
        min={1}
        max={topMax}
        value={value.top}
        onChange={(event) =>
          change({ top: Math.min(Math.max(1, Math.round(Number(event.target.value) || 1)), topMax) })
        }
      />
    </>
  )
}

export function QueryField({ value, onChange }: { value: string; onChange(query: string): void }) {
  return (
    <TextField
      label="Query"
      placeholder="param.optimizer = adamw"
      hint="As above the table of runs. Empty: all of them."
      value={value}
      onChange={(event) => onChange(event.target.value)}
    />
  )
}
