import type { Distribution, DistributionWindow } from '../api/monitoring.ts'
import { toCount } from '../kit/text.ts'
import styles from './histogram.module.css'
import { toShare, toShort } from './words.ts'

type Side = { window: DistributionWindow | undefined; counts: number[] }
type Props = {
  feature: string
  bins: { name: string; isNew: boolean }[]
  reference: Side
  current: Side
  when: string
  /** As high as its place. */
  isFilling?: boolean
}

const height = 140

/** The shares of bins or categories of the reference and of a time, one over the other. */
export function Histogram({ feature, bins, reference, current, when, isFilling }: Props) {
  const shares = ({ window, counts }: Side) => counts.map((it) => it / Math.max(1, window?.values ?? 0))
  const [before, now] = [shares(reference), shares(current)]
  const most = Math.max(0.01, ...before, ...now)
  const bar = (share: number, x: number, inset: number) =>
    share === 0
      ? ''
      : `M${x + inset} ${height}v-${((share / most) * (height - 4)).toFixed(1)}h${1 - 2 * inset}V${height}z`
  return (
    <figure className={styles.histogram} data-fill={isFilling || undefined}>
      <figcaption>
        Values
        <ul className={styles.legend}>
          <li data-of="reference">reference</li>
          <li data-of="current">{when}</li>
        </ul>
      </figcaption>
      <svg
        role="img"
        aria-label={`The distribution of ${feature} in the reference and ${when}`}
        viewBox={`0 0 ${Math.max(1, bins.length)} ${height}`}
        preserveAspectRatio="none"
        style={isFilling ? undefined : { height }}
      >
        <path className={styles.reference} d={before.map((it, x) => bar(it, x, 0.04)).join('')} />
        <path className={styles.current} d={now.map((it, x) => bar(it, x, 0.24)).join('')} />
      </svg>
      <div className={styles.axis} aria-hidden="true">
        {bins.length <= 12 ? (
          bins.map((it) => (
            <span key={it.name} title={it.name}>
              {it.name}
            </span>
          ))
        ) : (
          <>
            <span>{bins[0]?.name.split(' to ')[0]}</span>
            <span>{bins.at(-1)?.name.split(' to ').at(-1)}</span>
          </>
        )}
      </div>
      <details>
        <summary>As a table</summary>
        <div className={styles.scroll}>
          <table className={styles.table}>
            <thead>
              <tr>
                <th scope="col">Value</th>
                <th scope="col">Reference</th>
                <th scope="col">{when}</th>
              </tr>
            </thead>
            <tbody>
              {bins.map((it, x) => (
                <tr key={it.name}>
                  <th scope="row">
                    {it.name}
                    {it.isNew && <span className={styles.new}> new</span>}
                  </th>
                  <td>{`${toCount(reference.counts[x] ?? 0)} (${toShare(before[x] ?? 0)})`}</td>
                  <td>{`${toCount(current.counts[x] ?? 0)} (${toShare(now[x] ?? 0)})`}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      </details>
    </figure>
  )
}

/** The bins of a numeric feature, or the categories of both sides together, the most frequent of the reference first. */
export function toBins(reference: Distribution | undefined, current: Distribution): Props['bins'] {
  if (current.type === 'numeric') {
    return current.edges.slice(1).map((it, at) => ({
      name: `${toShort(current.edges[at] as number)} to ${toShort(it)}`,
      isNew: false,
    }))
  }
  const known = reference?.categories ?? []
  const others = current.categories.filter((it) => !known.includes(it))
  return [
    ...known.map((name) => ({ name, isNew: false })),
    // A reference with more categories than it lists may have had it.
    ...others.map((name) => ({ name, isNew: reference !== undefined && (reference.windows[0]?.rest ?? 0) === 0 })),
  ]
}

/** The counts of one side in the order of the bins. */
export function toSide(of: Distribution | undefined, bins: Props['bins']): Side {
  const window = of?.windows[0]
  if (!of || !window) return { window, counts: bins.map(() => 0) }
  const counts =
    of.type === 'numeric' ? window.counts : bins.map((it) => window.counts[of.categories.indexOf(it.name)] ?? 0)
  return { window, counts }
}
