import type { TrainingFiring } from '../../api/training-alerts.ts'
import { FiringTable } from '../../kit/alerts/firing-table.tsx'
import { PageLink } from '../../kit/page-link.tsx'
import { toNumber } from '../../kit/text.ts'
import styles from './alerts.module.css'

const shownRuns = 5

type Props = {
  firings: TrainingFiring[]
  /** The path of the project. */
  path: string
  listedMax?: number
}

/** What the rules on the runs of a project found. */
export function RunFirings({ firings, path, listedMax }: Props) {
  return (
    <FiringTable
      firings={firings}
      label="What fired"
      words={{ rule: 'Alert', found: 'Runs' }}
      toFound={({ found, measure }) => (
        <>
          {found.slice(0, shownRuns).map(({ experimentKey, experimentName, value }) => (
            <div key={experimentKey}>
              <PageLink path={`${path}/${experimentKey}`}>{experimentName || experimentKey}</PageLink>
              {measure === 'metric' && <span className={styles.soft}> {toNumber(value)}</span>}
            </div>
          ))}
          {found.length > shownRuns && `and ${found.length - shownRuns} more`}
        </>
      )}
      listedMax={listedMax}
    />
  )
}
