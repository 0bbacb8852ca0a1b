import { keepPreviousData, useQuery, useQueryClient } from '@tanstack/react-query'
import { useId, useState } from 'react'
import {
  addRule,
  driftMap,
  type Name,
  type NewRule,
  previewRule,
  refreshMonitored,
  type Time,
  type VersionCounts,
} from '../../api/monitoring.ts'
import { FormDialog } from '../../kit/dialog.tsx'
import { Input, Select, TextField } from '../../kit/field.tsx'
import { toCountOf } from '../../kit/text.ts'
import styles from '../production.module.css'
import { useLater } from '../segment-dialog.tsx'
import { TimeChart } from '../time-chart.tsx'
import { dayMs, toLength, toMeasure, toValue } from '../words.ts'

const ofFeature = ['wasserstein', 'psi', 'jensenShannon', 'kolmogorovSmirnov', 'missingShare']
const measures = [
  ...ofFeature,
  ...['accuracy', 'precision', 'recall', 'f1', 'meanAbsoluteError', 'rootMeanSquaredError', 'bias', 'unlabelledShare'],
  'events',
]
const usual: Record<string, number> = {
  psi: 0.2,
  jensenShannon: 0.1,
  kolmogorovSmirnov: 0.1,
  wasserstein: 0.1,
  missingShare: 0.1,
  accuracy: 0.9,
  precision: 0.9,
  recall: 0.9,
  f1: 0.9,
  unlabelledShare: 0.5,
  events: 1,
}
const worseBelow = ['accuracy', 'precision', 'recall', 'f1', 'events']
const lengths = [3_600_000, 6 * 3_600_000, dayMs, 7 * dayMs]
const previewedMax = 100

type Props = {
  name: Name
  on: { feature?: string; part?: 'prediction' }
  time: Time
  hasReference: boolean
  versions: VersionCounts[]
  onClose(): void
}

/** Makes a rule, and shows when it would have fired. */
export function AddRule({ name, on, time, hasReference, versions, onClose }: Props) {
  const [title, setTitle] = useState(on.feature ? `Drift of ${on.feature}` : '')
  const [measure, setMeasure] = useState('wasserstein')
  const [threshold, setThreshold] = useState('0.1')
  const [comparison, setComparison] = useState<'above' | 'below'>('above')
  const [feature, setFeature] = useState(on.feature ?? '')
  const [version, setVersion] = useState('')
  const [windowMs, setWindowMs] = useState(dayMs)
  const listId = useId()
  const fieldId = useId()
  const client = useQueryClient()
  const features = useQuery(driftMap({ ...name, ...time }, { hasReference })).data?.features ?? []
  const takesFeature = ofFeature.includes(measure)
  const chosen = feature.trim()
  // A name that only predictions have is one of them.
  const part =
    features.some((it) => it.name === chosen && it.part === 'prediction') &&
    !features.some((it) => it.name === chosen && it.part === 'feature')
      ? ('prediction' as const)
      : undefined
  const rule: NewRule = {
    ...name,
    name: title.trim() || 'preview',
    measure,
    comparison,
    threshold: Number(threshold),
    windowMs,
    ...(takesFeature && chosen !== '' && { feature: chosen, ...(part && { part }) }),
    ...(version !== '' && { modelVersion: version }),
  }
  const isRight = threshold.trim() !== '' && Number.isFinite(Number(threshold))
  const count = Math.min(previewedMax, Math.max(1, Math.round(((time.to ?? 0) - (time.from ?? 0)) / windowMs)))
  const asked = useLater(JSON.stringify(isRight ? { ...rule, name: 'preview' } : null))
  const preview = useQuery({
    queryKey: ['monitoring', name.workspaceName, name.modelName, 'preview', asked, count, time.to],
    queryFn: ({ signal }) =>
      previewRule(JSON.parse(asked) as NewRule, { windows: count, ...(time.to && { to: time.to }) }, signal),
    enabled: asked !== 'null',
    placeholderData: keepPreviousData,
  })
  const choose = (it: string) => {
    setMeasure(it)
    setThreshold(String(usual[it] ?? 0))
    setComparison(worseBelow.includes(it) ? 'below' : 'above')
  }
  const fires = preview.data?.windows.filter((it) => it.fires).length ?? 0
  return (
    <FormDialog
      title="Add a rule"
      action="Save rule"
      width={720}
      canSubmit={title.trim() !== '' && isRight}
      onClose={onClose}
      onSubmit={async () => {
        await addRule(rule)
        await refreshMonitored(client, name)
      }}
    >
      <TextField label="Name" maxLength={200} value={title} onChange={(event) => setTitle(event.target.value)} />
      <div className={styles.row}>
        <div className={styles.field}>
          <label htmlFor={`${fieldId}-measure`}>Measure</label>
          <Select id={`${fieldId}-measure`} value={measure} onChange={(event) => choose(event.target.value)}>
            {measures.map((it) => (
              <option key={it} value={it}>
                {toMeasure(it)}
              </option>
            ))}
          </Select>
        </div>
        <div className={styles.field}>
          <label htmlFor={`${fieldId}-feature`}>Feature</label>
          <Input
            id={`${fieldId}-feature`}
            list={listId}
            placeholder={takesFeature ? 'all of them' : ''}
            disabled={!takesFeature}
            value={takesFeature ? feature : ''}
            onChange={(event) => setFeature(event.target.value)}
          />
          <datalist id={listId}>
            {features.map((it) => (
              <option key={`${it.part} ${it.name}`} value={it.name} />
            ))}
          </datalist>
        </div>
        <div className={styles.field}>
          <label htmlFor={`${fieldId}-comparison`}>Fires</label>
          <Select
            id={`${fieldId}-comparison`}
            value={comparison}
            onChange={(event) => setComparison(event.target.value === 'below' ? 'below' : 'above')}
          >
            <option>above</option>
            <option>below</option>
          </Select>
        </div>
        <TextField
          label="Threshold"
          inputMode="decimal"
          value={threshold}
          onChange={(event) => setThreshold(event.target.value)}
        />
        <div className={styles.field}>
          <label htmlFor={`${fieldId}-window`}>Windows of</label>
          <Select
            id={`${fieldId}-window`}
            value={windowMs}
            onChange={(event) => setWindowMs(Number(event.target.value))}
          >
            {lengths.map((it) => (
              <option key={it} value={it}>
                {toLength(it)}
              </option>
            ))}
          </Select>
        </div>
        <div className={styles.field}>
          <label htmlFor={`${fieldId}-version`}>Version</label>
          <Select id={`${fieldId}-version`} value={version} onChange={(event) => setVersion(event.target.value)}>
            <option value="">all</option>
            {versions.map((it) => (
              <option key={it.modelVersion}>{it.modelVersion}</option>
            ))}
          </Select>
        </div>
      </div>
      {preview.error ? (
        <p role="alert" className={styles.warning}>
          {preview.error.message}
        </p>
      ) : (
        preview.data && (
          <>
            <p role="status">
              {preview.data.problem === null
                ? `It would have fired for ${fires} of the last ${toCountOf(preview.data.windows.length, 'window')}.`
                : `It could not be measured: ${preview.data.problem}.`}
            </p>
            <TimeChart
              title="The worst value of each window"
              windows={preview.data.windows}
              intervalMs={windowMs}
              series={[
                {
                  name: toMeasure(measure),
                  values: preview.data.windows.map((it) => it.worst?.value ?? null),
                  look: 'first',
                  toText: (it) => toValue(measure, it),
                },
              ]}
              lines={[{ name: 'threshold', value: preview.data.threshold }]}
              marked={preview.data.windows.map((it) => it.fires)}
            />
          </>
        )
      )}
    </FormDialog>
  )
}
