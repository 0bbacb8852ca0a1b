import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import type { Metric } from '../../api/dashboards.ts'
import { knownColumns } from '../../api/runs.ts'
import { Checkbox, TextField } from '../../kit/field.tsx'
import styles from '../dashboards.module.css'
import { toMetricName, toMetrics } from '../panel-kinds.ts'
import { Choice, type FieldsProps } from './choice.tsx'
import { QueryField, RunChoiceFields, toChosen, toRunChoice } from './run-choice.tsx'

export function ChartFields({ workspace, project, projectId, given, children }: FieldsProps<'chart'>) {
  const [metric, metricField] = useMetric(workspace, project, given?.metric)
  const [chosen, setChosen] = useState(toChosen(given))
  const looks = given?.charts
  const [x, setX] = useState(typeof looks?.x === 'string' ? looks.x : '')
  const [smooth, setSmooth] = useState(typeof looks?.smooth === 'number' ? looks.smooth : 0)
  const [logY, setLogY] = useState(looks?.logY === true)
  const charts = { ...looks, x: x || undefined, smooth: smooth || undefined, logY: logY || undefined }
  return children(
    metric && { kind: 'chart', metric, top: chosen.top, charts, ...toRunChoice(chosen) },
    <>
      {metricField}
      <RunChoiceFields projectId={projectId} value={chosen} onChange={setChosen} />
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
    </>,
  )
}

export function ValueFields({ workspace, project, given, children }: FieldsProps<'value'>) {
  const [metric, metricField] = useMetric(workspace, project, given?.metric)
  const [of, setOf] = useState(given?.of ?? 'min')
  const [query, setQuery] = useState(given?.query ?? '')
  return children(
    metric && { kind: 'value', metric, of, ...(query.trim() && { query: query.trim() }) },
    <>
      {metricField}
      <Choice label="Best is" value={of} onChange={(it) => setOf(it as 'min')}>
        <option value="min">the least</option>
        <option value="max">the highest</option>
      </Choice>
      <QueryField value={query} onChange={setQuery} />
    </>,
  )
}

/** The chosen metric of the project, at first its first one, and the field that chooses it. */
function useMetric(workspace: string, project: string, given: Metric | undefined) {
  const [name, setName] = useState(given ? toMetricName(given) : '')
  const known = useQuery(knownColumns(workspace, project)).data
  const metrics = toMetrics(known ?? [])
  const metric = metrics.find((it) => toMetricName(it) === name) ?? metrics[0]
  const field = metric ? (
    <Choice key="metric" label="Metric" value={toMetricName(metric)} onChange={setName}>
      {metrics.map((it) => (
        <option key={toMetricName(it)}>{toMetricName(it)}</option>
      ))}
    </Choice>
  ) : (
    <p key="metric" className={styles.note}>
      {known ? 'The project has no metric yet.' : 'Loading …'}
    </p>
  )
  return [metric, field] as const
}
