import { useQuery } from '@tanstack/react-query'
import { type Health, health } from '../api/admin.ts'
import { Button } from '../kit/button.tsx'
import { ErrorPlace, LoadingPlace } from '../kit/places.tsx'
import { toCountOf } from '../kit/text.ts'
import styles from './admin.module.css'

/** Each look writes and deletes an object. */
const againMs = 60_000

const marks = { ok: 'well', warning: 'warning', wrong: 'wrong' }

/** What `svc doctor` says of the stores. */
export function HealthSection() {
  const { data, error, refetch, isFetching } = useQuery({ ...health, refetchInterval: againMs })
  if (error && !data) return <ErrorPlace error={error} onRetry={refetch} />
  return (
    <>
      <p className={styles.intro}>
        What <code>svc doctor</code> says of the stores, seen from the process that answers this page. What is not well
        comes first, and says what to do.
      </p>
      <div className={styles.tools}>
        {data && <p className={styles.sentence}>{summarize(data)}</p>}
        <span className={styles.gap} />
        <Button onClick={() => refetch()} disabled={isFetching}>
          {isFetching ? 'Checking…' : 'Check again'}
        </Button>
      </div>
      {data ? (
        <>
          <ul className={styles.findings} aria-label="Findings">
            {[...data.findings].sort(byState).map(({ name, state, says }) => (
              <li key={`${name} ${says}`} data-state={state}>
                <span className={styles.mark}>{marks[state]}</span>
                <strong>{name}</strong>
                <span>{says}</span>
              </li>
            ))}
          </ul>
          <p className={styles.faint}>{`svc ${data.version} on Node ${data.node}`}</p>
        </>
      ) : (
        <LoadingPlace />
      )}
    </>
  )
}

const order = ['wrong', 'warning', 'ok']

const byState = (a: { state: string }, b: { state: string }) => order.indexOf(a.state) - order.indexOf(b.state)

function summarize({ findings }: Health): string {
  const count = (state: string) => findings.filter((it) => it.state === state).length
  const [wrong, warnings] = [count('wrong'), count('warning')]
  if (wrong === 0 && warnings === 0) return 'All checks passed.'
  const parts = [
    wrong > 0 && `${wrong} ${wrong === 1 ? 'thing is' : 'things are'} wrong`,
    warnings > 0 && toCountOf(warnings, 'warning'),
  ]
  return `${parts.filter(Boolean).join(', ')}.`
}
