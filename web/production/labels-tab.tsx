import { keepPreviousData, useQuery } from '@tanstack/react-query'
import {
  type DelayWindow,
  delays as delaysQuery,
  type Quality,
  quality as qualityQuery,
  type Scope,
  type Time,
} from '../api/monitoring.ts'
import { EmptyPlace, ErrorPlace, LoadingPlace } from '../kit/places.tsx'
import { Snippet } from '../kit/snippet.tsx'
import { toCount, toDuration } from '../kit/text.ts'
import { toCurl } from './empty.tsx'
import styles from './production.module.css'
import { type Series, TimeChart } from './time-chart.tsx'
import { toShare } from './words.ts'

/** How often the model is right, of how many predictions that is known, and how long that took. */
export function LabelsTab({ scope, time }: { scope: Scope; time: Time }) {
  const quality = useQuery({ ...qualityQuery({ ...scope, ...time }), placeholderData: keepPreviousData })
  const delays = useQuery({ ...delaysQuery({ ...scope, ...time }), placeholderData: keepPreviousData })
  if (quality.error && !quality.data) return <ErrorPlace error={quality.error} onRetry={() => quality.refetch()} />
  if (!quality.data || !delays.data) return <LoadingPlace rows={8} />
  const { windows, task, label, prediction } = quality.data
  if (task === null || windows.every((it) => it.labelled === 0)) {
    return (
      <EmptyPlace title="No label yet">
        <p>Send what was true once you know it, by the id of the prediction:</p>
        <div className={styles.snippet}>
          <Snippet code={toCurl('labels', { ...scope, predictionId: 'order-17', labels: { value: 'fraud' } })} />
        </div>
      </EmptyPlace>
    )
  }
  return (
    <div className={styles.column}>
      <p
        className={styles.soft}
      >{`The prediction ${prediction} against the label ${label}, by the time of the prediction.`}</p>
      <QualityChart quality={quality.data} intervalMs={time.interval} height={180} />
      <CoverageChart windows={delays.data.windows} intervalMs={time.interval} height={80} />
      <DelayChart windows={delays.data.windows} intervalMs={time.interval} />
      {task === 'classification' && <Classes scope={scope} time={time} />}
    </div>
  )
}

type Size = { intervalMs: number; height?: number; isFilling?: boolean }

/** How often a model is right, or how far it is from the truth. */
export function QualityChart({ quality, ...size }: Size & { quality: Quality }) {
  return <TimeChart title="Quality" windows={quality.windows} series={toSeries(quality)} {...size} />
}

/** The share of predictions that have a label. */
export function CoverageChart({ windows, ...size }: Size & { windows: DelayWindow[] }) {
  const values = windows.map((it) => it.coverage)
  return (
    <TimeChart
      title="Coverage"
      windows={windows}
      series={[{ name: 'share with a label', values, look: 'first', toText: toShare }]}
      range={[0, 1]}
      {...size}
    />
  )
}

/** How long labels take to come. */
export function DelayChart({ windows, ...size }: Size & { windows: DelayWindow[] }) {
  const values = (q: string) => windows.map((it) => it.delays[q] ?? null)
  return (
    <TimeChart
      title="Delay of labels"
      windows={windows}
      series={[
        { name: 'half within', values: values('0.5'), look: 'first', toText: toDuration },
        { name: '90 % within', values: values('0.9'), look: 'second', toText: toDuration },
      ]}
      range={[0, 1]}
      {...size}
    />
  )
}

function toSeries({ task, windows }: Quality): Series[] {
  const of = (pick: (it: Quality['windows'][number]) => number | null) => windows.map(pick)
  if (task === 'regression') {
    return [
      { name: 'mean absolute error', values: of((it) => it.meanAbsoluteError), look: 'first' },
      { name: 'root mean squared error', values: of((it) => it.rootMeanSquaredError), look: 'second' },
      { name: 'bias', values: of((it) => it.bias), look: 'third' },
    ]
  }
  return [
    { name: 'accuracy', values: of((it) => it.accuracy), look: 'first', toText: toShare },
    { name: 'F1', values: of((it) => it.f1), look: 'second', toText: toShare },
  ]
}

/** Of the whole time together. */
function Classes({ scope, time: { from, to } }: { scope: Scope; time: Time }) {
  const { data } = useQuery({ ...qualityQuery({ ...scope, from, to }), placeholderData: keepPreviousData })
  const classes = data?.windows[0]?.classes ?? []
  if (classes.length === 0) return null
  return (
    <section className={styles.section} aria-labelledby="classes">
      <div className={styles.sectionHeader}>
        <h2 id="classes">Classes</h2>
        <span className={styles.faint}>the whole time</span>
      </div>
      <div className={styles.frame}>
        <table className={styles.table}>
          <thead>
            <tr>
              <th scope="col">Class</th>
              {['Actual', 'Predicted', 'Correct', 'Precision', 'Recall'].map((it) => (
                <th key={it} scope="col" className={styles.number}>
                  {it}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {classes.map(({ name, actual, predicted, correct }) => (
              <tr key={name}>
                <td title={name}>{name}</td>
                <td className={styles.number}>{toCount(actual)}</td>
                <td className={styles.number}>{toCount(predicted)}</td>
                <td className={styles.number}>{toCount(correct)}</td>
                <td className={styles.number}>{toShare(predicted === 0 ? null : correct / predicted)}</td>
                <td className={styles.number}>{toShare(actual === 0 ? null : correct / actual)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  )
}
