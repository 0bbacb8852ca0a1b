import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { type Column, knownColumns } from '../../api/runs.ts'
import { Checkbox } from '../../kit/field.tsx'
import styles from '../dashboards.module.css'
import { toMetricName } from '../panel-kinds.ts'
import { Choice, type FieldsProps } from './choice.tsx'
import { RunChoiceFields, toChosen, toRunChoice } from './run-choice.tsx'

const metadata: Column[] = ['state', 'startTime', 'duration', 'userName', 'tags'].map((name) => ({
  source: 'metadata',
  name,
}))
const columnNames: Record<string, string> = {
  state: 'State',
  startTime: 'Started',
  duration: 'Duration',
  userName: 'User',
  tags: 'Tags',
}

export function RunsFields({ workspace, project, projectId, given, children }: FieldsProps<'runs'>) {
  const [columns, setColumns] = useState<Column[]>(given?.columns ?? metadata.slice(0, 2))
  const [sort, setSort] = useState(given?.sort ? JSON.stringify(toPlain(given.sort.column)) : '')
  const [order, setOrder] = useState(given?.sort?.order ?? 'desc')
  const [chosen, setChosen] = useState(toChosen(given))
  const known = useQuery(knownColumns(workspace, project)).data ?? []
  const offered = [...metadata, ...known.filter((it) => it.source !== 'metadata').map(toPlain)]
  const isChosen = (column: Column) => columns.some((it) => isSame(it, column))
  return children(
    {
      ...{ kind: 'runs', columns, top: chosen.top },
      ...(sort && { sort: { column: JSON.parse(sort), order } }),
      ...toRunChoice(chosen),
    },
    <>
      <fieldset className={styles.group}>
        <legend>Columns</legend>
        <div className={styles.choices}>
          {offered.map((it) => (
            <Checkbox
              key={JSON.stringify(it)}
              checked={isChosen(it)}
              onChange={(event) =>
                setColumns(event.target.checked ? [...columns, it] : columns.filter((one) => !isSame(one, it)))
              }
            >
              {toColumnName(it)}
            </Checkbox>
          ))}
        </div>
      </fieldset>
      <Choice label="Sorted by" value={sort} onChange={setSort}>
        <option value="">{chosen.view ? 'as the view' : 'when they were made'}</option>
        {offered.map((it) => (
          <option key={JSON.stringify(it)} value={JSON.stringify(it)}>
            {toColumnName(it)}
          </option>
        ))}
      </Choice>
      {sort && (
        <Choice label="Order" value={order} onChange={(it) => setOrder(it as 'asc')}>
          <option value="desc">highest or newest first</option>
          <option value="asc">lowest or oldest first</option>
        </Choice>
      )}
      <RunChoiceFields projectId={projectId} value={chosen} onChange={setChosen} />
    </>,
  )
}

/** Only what names a column, in one order, so that two can be compared. */
function toPlain(column: Column): Column {
  if (column.source !== 'metric') return { source: column.source, name: column.name }
  const { name, context, of = 'last' } = column
  return { source: 'metric', name, ...(context && { context }), of }
}

const isSame = (one: Column, other: Column) => JSON.stringify(toPlain(one)) === JSON.stringify(toPlain(other))

function toColumnName(column: Column): string {
  if (column.source === 'metadata') return columnNames[column.name] ?? column.name
  if (column.source !== 'metric') return column.name
  return column.of === 'last' || !column.of ? toMetricName(column) : `${toMetricName(column)}, ${column.of}`
}
