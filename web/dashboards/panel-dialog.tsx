import { useQuery } from '@tanstack/react-query'
import { type ReactNode, useId, useState } from 'react'
import type { Content, Panel } from '../api/dashboards.ts'
import { assets } from '../api/run.ts'
import { type Column, knownColumns, readRuns } from '../api/runs.ts'
import { views } from '../api/views.ts'
import { FormDialog } from '../kit/dialog.tsx'
import { Checkbox, Select, TextArea, TextField } from '../kit/field.tsx'
import styles from './dashboards.module.css'
import { kinds, toMetricName, toMetrics } from './panel-kinds.ts'

type Kind = Content['kind']
type Props = {
  workspace: string
  project: string
  projectId: string
  /** Absent: a new one. */
  panel?: Panel
  onSave(content: Content, title: string): Promise<unknown>
  onClose(): void
}

const topMax = 100
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

/** Adds a panel, or changes what one shows. */
export function PanelDialog({ workspace, project, projectId, panel, onSave, onClose }: Props) {
  const given = panel?.content
  const [kind, setKind] = useState<Kind>(given?.kind ?? 'chart')
  const [title, setTitle] = useState(panel?.title ?? '')
  const [metricName, setMetric] = useState(given && 'metric' in given ? toMetricName(given.metric) : '')
  const [of, setOf] = useState<'min' | 'max'>(given?.kind === 'value' ? given.of : 'min')
  const [query, setQuery] = useState((given && 'query' in given && given.query) || '')
  const [view, setView] = useState((given && 'view' in given && given.view) || '')
  const [top, setTop] = useState(given && 'top' in given ? given.top : 10)
  const looks = given?.kind === 'chart' ? given.charts : undefined
  const [x, setX] = useState(typeof looks?.x === 'string' ? looks.x : '')
  const [smooth, setSmooth] = useState(typeof looks?.smooth === 'number' ? looks.smooth : 0)
  const [logY, setLogY] = useState(looks?.logY === true)
  const [columns, setColumns] = useState<Column[]>(given?.kind === 'runs' ? given.columns : metadata.slice(0, 2))
  const [sort, setSort] = useState(
    given?.kind === 'runs' && given.sort ? JSON.stringify(toPlain(given.sort.column)) : '',
  )
  const [order, setOrder] = useState<'asc' | 'desc'>(given?.kind === 'runs' ? (given.sort?.order ?? 'desc') : 'desc')
  const [runKey, setRun] = useState(given?.kind === 'file' ? given.experimentKey : '')
  const [fileName, setFile] = useState(given?.kind === 'file' ? given.fileName : '')
  const [text, setText] = useState(given?.kind === 'text' ? given.text : '')

  const known = useQuery(knownColumns(workspace, project)).data ?? []
  const metrics = toMetrics(known)
  const metric = metrics.find((it) => toMetricName(it) === metricName) ?? metrics[0]
  const named = useQuery(views(projectId)).data ?? []
  const runs = useRecentRuns(workspace, project, kind === 'file')
  const chosenRun = runKey || runs[0]?.experimentKey || ''
  const files = useQuery({ ...assets(chosenRun), enabled: kind === 'file' && chosenRun !== '' }).data ?? []
  const fileNames = [...new Set(files.filter((it) => !it.remote).map((it) => it.fileName))]
  const file = fileNames.includes(fileName) ? fileName : (fileNames[0] ?? '')
  const offered = [...metadata, ...known.filter((it) => it.source !== 'metadata').map(toPlain)]
  const isChosen = (column: Column) => columns.some((it) => isSame(it, column))
  const chosen = { ...(view && { view }), ...(query.trim() && { query: query.trim() }) }

  function toContent(): Content | undefined {
    switch (kind) {
      case 'chart': {
        const charts = { ...looks, x: x || undefined, smooth: smooth || undefined, logY: logY || undefined }
        return metric && { kind, metric, top, charts, ...chosen }
      }
      case 'value':
        return metric && { kind, metric, of, ...(query.trim() && { query: query.trim() }) }
      case 'runs':
        return { kind, columns, top, ...(sort && { sort: { column: JSON.parse(sort), order } }), ...chosen }
      case 'file':
        return file ? { kind, experimentKey: chosenRun, fileName: file } : undefined
      case 'text':
        return text.trim() ? { kind, text } : undefined
    }
  }
  const content = toContent()
  return (
    <FormDialog
      title={panel ? 'Edit the panel' : 'Add a panel'}
      action={panel ? 'Save' : 'Add panel'}
      canSubmit={content !== undefined}
      width={560}
      onClose={onClose}
      onSubmit={async () => content && (await onSave(content, title.trim()))}
    >
      <Choice label="Kind" value={kind} onChange={(it) => setKind(it as Kind)}>
        {Object.entries(kinds).map(([value, { label, about }]) => (
          <option key={value} value={value}>
            {label}: {about}
          </option>
        ))}
      </Choice>
      {(kind === 'chart' || kind === 'value') &&
        (metric ? (
          <Choice label="Metric" value={toMetricName(metric)} onChange={setMetric}>
            {metrics.map((it) => (
              <option key={toMetricName(it)}>{toMetricName(it)}</option>
            ))}
          </Choice>
        ) : (
          <p className={styles.note}>The project has no metric yet.</p>
        ))}
      {kind === 'value' && (
        <Choice label="Best is" value={of} onChange={(it) => setOf(it as 'min')}>
          <option value="min">the least</option>
          <option value="max">the highest</option>
        </Choice>
      )}
      {kind === 'runs' && (
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
            <option value="">{view ? 'as the view' : 'when they were made'}</option>
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
        </>
      )}
      {(kind === 'chart' || kind === 'runs') && named.length > 0 && (
        <Choice label="View" value={view} onChange={setView}>
          <option value="">all runs of the project</option>
          {named.map((it) => (
            <option key={it.id} value={it.id}>
              {it.name}
            </option>
          ))}
        </Choice>
      )}
      {(kind === 'chart' || kind === 'runs' || kind === 'value') && (
        <TextField
          label="Query"
          placeholder="param.optimizer = adamw"
          hint="As above the table of runs. Empty: all of them."
          value={query}
          onChange={(event) => setQuery(event.target.value)}
        />
      )}
      {(kind === 'chart' || kind === 'runs') && (
        <TextField
          label="Runs at most"
          type="number"
          min={1}
          max={topMax}
          value={top}
          onChange={(event) => setTop(Math.min(Math.max(1, Math.round(Number(event.target.value) || 1)), topMax))}
        />
      )}
      {kind === 'chart' && (
        <>
          <Choice label="X axis" value={x} onChange={setX}>
            <option value="">as the run defines, or the step</option>
            <option value="step">Step</option>
            <option value="time">Time</option>
            <option value="relative">Time since start</option>
            <option value="epoch">Epoch</option>
          </Choice>
          <TextField
            label={`Smoothing: ${smooth}`}
            type="range"
            min={0}
            max={0.99}
            step={0.01}
            value={smooth}
            onChange={(event) => setSmooth(Number(event.target.value))}
          />
          <Checkbox checked={logY} onChange={(event) => setLogY(event.target.checked)}>
            Logarithmic y
          </Checkbox>
        </>
      )}
      {kind === 'file' && (
        <>
          <Choice label="Run" value={chosenRun} onChange={setRun}>
            {runKey && !runs.some((it) => it.experimentKey === runKey) && <option value={runKey}>{runKey}</option>}
            {runs.map((it) => (
              <option key={it.experimentKey} value={it.experimentKey}>
                {it.name}
              </option>
            ))}
          </Choice>
          {fileNames.length > 0 ? (
            <Choice label="File" value={file} onChange={setFile}>
              {fileNames.map((it) => (
                <option key={it}>{it}</option>
              ))}
            </Choice>
          ) : (
            <p className={styles.note}>The run has no file.</p>
          )}
        </>
      )}
      {kind === 'text' && (
        <TextArea label="Text in Markdown" rows={8} value={text} onChange={(event) => setText(event.target.value)} />
      )}
      <TextField
        label="Title"
        hint="Empty: the name of what it shows."
        maxLength={200}
        value={title}
        onChange={(event) => setTitle(event.target.value)}
      />
    </FormDialog>
  )
}

const recentMax = 200

/** The newest runs of the project, to choose one. */
function useRecentRuns(workspaceName: string, projectName: string, enabled: boolean) {
  const column: Column = { source: 'metadata', name: 'startTime' }
  const asked = { workspaceName, projectName, columns: [], sort: [{ column, order: 'desc' as const }], size: recentMax }
  const { data } = useQuery({
    queryKey: ['runs', workspaceName, projectName, 'recent'],
    queryFn: ({ signal }) => readRuns(asked, signal),
    enabled,
  })
  return data?.runs ?? []
}

type ChoiceProps = { label: string; value: string; onChange(value: string): void; children: ReactNode }

function Choice({ label, value, onChange, children }: ChoiceProps) {
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
