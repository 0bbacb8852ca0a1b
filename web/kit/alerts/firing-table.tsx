import { type ReactNode, useState } from 'react'
import { Button } from '../button.tsx'
import { toAgo, toCount, toTime } from '../text.ts'
import styles from './firing-table.module.css'

/** A rule that fired, whatever it is on. Times are ms since the Unix epoch. */
export type ShownFiring = {
  alertId: string
  name: string
  windowFrom: number
  firedAt: number
  told: { deliveryId: string; host: string; state: string; at: number | null; status: number | null }[]
}

type Props<Firing> = {
  /** The newest first. */
  firings: Firing[]
  /** What it shows, for screen readers. */
  label: string
  /** What a rule is called here, and what it finds. */
  words: { rule: string; found: string }
  /** The window that a rule looked at, where it has a meaning to readers. */
  toWindow?(firing: Firing): string
  toFound(firing: Firing): ReactNode
  /** So many are listed until all are asked for. */
  listedMax?: number
}

/** When rules fired, what they found, and who was told. */
export function FiringTable<Firing extends ShownFiring>({
  firings,
  label,
  words,
  toWindow,
  toFound,
  listedMax = 50,
}: Props<Firing>) {
  const [isAll, setAll] = useState(false)
  const shown = isAll ? firings : firings.slice(0, listedMax)
  return (
    <>
      <div className={styles.frame}>
        <table className={styles.table} aria-label={label}>
          <thead>
            <tr>
              {[toWindow && 'Window', words.rule, words.found, 'Fired', 'Told'].map(
                (it) =>
                  it && (
                    <th key={it} scope="col">
                      {it}
                    </th>
                  ),
              )}
            </tr>
          </thead>
          <tbody>
            {shown.map((it) => (
              <tr key={`${it.alertId} ${it.windowFrom}`}>
                {toWindow && <td>{toWindow(it)}</td>}
                <td title={it.name}>{it.name}</td>
                <td className={styles.wrap}>{toFound(it)}</td>
                <td className={styles.soft} title={toTime(it.firedAt)}>
                  {toAgo(it.firedAt)}
                </td>
                <td>
                  {it.told.length === 0 && <span className={styles.faint}>nobody</span>}
                  {it.told.map(({ deliveryId, host, state, at, status }) => (
                    <div key={deliveryId} title={at === null ? undefined : toTime(at)}>
                      {host}{' '}
                      <span className={styles.state} data-state={state}>
                        {state}
                        {status !== null && ` (${status})`}
                      </span>
                    </div>
                  ))}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {firings.length > shown.length && (
        <p>
          <Button size="small" onClick={() => setAll(true)}>
            {`Show all ${toCount(firings.length)}`}
          </Button>
        </p>
      )}
    </>
  )
}
