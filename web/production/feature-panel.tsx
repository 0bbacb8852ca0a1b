import { Button } from '../kit/button.tsx'
import { useMayWrite } from '../kit/use-may-write.ts'
import { levelWords, toLevel } from './drift-level.ts'
import { FeatureDistance, FeatureMissing, FeatureQuantiles } from './feature-lines.tsx'
import { FeatureValues, findCell, type OfFeature } from './feature-values.tsx'
import styles from './production.module.css'
import { toWindow } from './words.ts'

type Props = OfFeature & {
  /** Leads to a rule on this feature. */
  onAddRule(): void
}

/** One feature against the reference: its values in a window, and what became of it over time. */
export function FeaturePanel({ onAddRule, ...of }: Props) {
  const { row, at, window } = findCell(of)
  const name = of.cell.feature
  const mayWrite = useMayWrite(of.scope.workspaceName)
  const when = window ? toWindow(window.from, of.map.interval) : ''
  return (
    <section className={styles.panel} aria-labelledby="feature">
      <div className={styles.sectionHeader}>
        <h2 id="feature" title={name}>
          {name}
        </h2>
        <span className={styles.soft}>{`${when}: ${row ? levelWords[String(toLevel(row, at))] : 'not reported'}`}</span>
        <span className={styles.gap} />
        {mayWrite && (
          <Button size="small" onClick={onAddRule}>
            Add an alert
          </Button>
        )}
      </div>
      <div className={styles.pair}>
        <FeatureValues {...of} />
        <div className={styles.column}>
          <FeatureDistance {...of} />
          <FeatureQuantiles {...of} />
          <FeatureMissing {...of} />
        </div>
      </div>
    </section>
  )
}
