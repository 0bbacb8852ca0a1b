import { useQuery } from '@tanstack/react-query'
import { type FormEvent, useState } from 'react'
import { event as eventQuery, ingestionErrors, type Name, type Scalar } from '../api/monitoring.ts'
import { Button } from '../kit/button.tsx'
import { Input } from '../kit/field.tsx'
import { EmptyPlace, ErrorPlace, LoadingPlace } from '../kit/places.tsx'
import { toAgo, toCount, toTime } from '../kit/text.ts'
import styles from './production.module.css'
import type { ProductionSearch } from './production-search.ts'
import { UploadReference } from './upload-reference.tsx'

type Props = {
  name: Name
  datasetName: string | null
  prediction: string | undefined
  onSearch(change: ProductionSearch): void
}

/** One prediction by its id, what was wrong with events, and the reference. */
export function EventsTab({ name, datasetName, prediction, onSearch }: Props) {
  const [typed, setTyped] = useState(prediction ?? '')
  function find(event: FormEvent) {
    event.preventDefault()
    onSearch({ prediction: typed.trim() || undefined })
  }
  return (
    <div className={styles.column}>
      <section className={styles.section} aria-labelledby="prediction">
        <div className={styles.sectionHeader}>
          <h2 id="prediction">One prediction</h2>
        </div>
        <form className={styles.find} onSubmit={find}>
          <Input
            aria-label="Prediction id"
            placeholder="Prediction id"
            value={typed}
            onChange={(event) => setTyped(event.target.value)}
          />
          <Button type="submit">Find</Button>
        </form>
        {prediction !== undefined && <Prediction name={name} predictionId={prediction} />}
      </section>
      <Errors name={name} onFind={(it) => onSearch({ prediction: it })} />
      <section className={styles.section} aria-labelledby="reference">
        <div className={styles.sectionHeader}>
          <h2 id="reference">Reference</h2>
          <span className={styles.faint}>{datasetName === null ? 'none yet' : `compared with ${datasetName}`}</span>
        </div>
        <UploadReference name={name} />
      </section>
    </div>
  )
}

function Prediction({ name, predictionId }: { name: Name; predictionId: string }) {
  const { data, error, refetch } = useQuery({ ...eventQuery(name, predictionId), retry: false })
  if (error) return <ErrorPlace error={error} onRetry={refetch} />
  if (!data) return <LoadingPlace rows={4} />
  return (
    <>
      <p className={styles.soft}>
        {[
          data.modelVersion && `version ${data.modelVersion}`,
          data.timestamp !== null && toTime(data.timestamp),
          data.labelsTimestamp !== null && `labels ${toTime(data.labelsTimestamp)}`,
        ]
          .filter(Boolean)
          .join(' · ')}
      </p>
      <div className={styles.columns}>
        <Values title="Features" values={data.features} />
        <Values title="Prediction" values={data.prediction} />
        <Values title="Labels" values={data.labels} />
      </div>
    </>
  )
}

function Values({ title, values }: { title: string; values: Scalar[] }) {
  return (
    <div className={styles.column}>
      <h3>{title}</h3>
      {values.length === 0 ? (
        <p className={styles.faint}>none</p>
      ) : (
        <dl className={styles.facts}>
          {values.map((it) => (
            <div key={it.name}>
              <dt>{it.name}</dt>
              <dd>{it.value === null ? <span className={styles.faint}>missing</span> : String(it.value)}</dd>
            </div>
          ))}
        </dl>
      )}
    </div>
  )
}

function Errors({ name, onFind }: { name: Name; onFind(predictionId: string): void }) {
  const { data, error, refetch } = useQuery(ingestionErrors(name))
  return (
    <section className={styles.section} aria-labelledby="errors">
      <div className={styles.sectionHeader}>
        <h2 id="errors">Errors of events</h2>
        <span className={styles.faint}>of the last days</span>
      </div>
      {error && !data ? (
        <ErrorPlace error={error} onRetry={refetch} />
      ) : !data ? (
        <LoadingPlace rows={3} />
      ) : data.errors.length === 0 ? (
        <EmptyPlace title="No error">Every event of the last days was accepted.</EmptyPlace>
      ) : (
        <div className={styles.frame}>
          <table className={styles.table}>
            <thead>
              <tr>
                <th scope="col">What was wrong</th>
                <th scope="col" className={styles.number}>
                  Events
                </th>
                <th scope="col">Last</th>
                <th scope="col">One of them</th>
              </tr>
            </thead>
            <tbody>
              {data.errors.map((it) => (
                <tr key={`${it.day} ${it.call} ${it.msg}`}>
                  <td className={styles.wrap}>{it.msg}</td>
                  <td className={styles.number}>{toCount(it.count)}</td>
                  <td className={styles.soft} title={toTime(it.lastAt)}>
                    {toAgo(it.lastAt)}
                  </td>
                  <td>
                    <Button size="small" look="quiet" onClick={() => onFind(it.sample)}>
                      {it.sample}
                    </Button>
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </section>
  )
}
