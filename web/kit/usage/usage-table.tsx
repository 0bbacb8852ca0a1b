import type { Used } from '../../api/accounts.ts'
import { toBytes, toCount } from '../text.ts'
import { Share } from './share.tsx'
import styles from './usage-table.module.css'

/** The limits of tenants, as `store/limits.ts` names them. */
export const tenantLimits: { name: string; label: string }[] = [
  { name: 'pointsPerMinute', label: 'Points, lines and events a minute' },
  { name: 'fileBytesMax', label: 'Bytes of files' },
  { name: 'experimentsMax', label: 'Experiments' },
  { name: 'streamsMax', label: 'Live streams at once' },
  { name: 'exportsMax', label: 'Exports at once' },
  { name: 'queriesMax', label: 'Queries at once' },
]

/** Each limit of a tenant beside what is used of it. */
export function UsageTable({ label, used }: { label: string; used: Used[] }) {
  const toText = (name: string, it: number) => (name === 'fileBytesMax' ? toBytes(it) : toCount(it))
  return (
    <div className={styles.frame}>
      <table className={styles.table} aria-label={label}>
        <thead>
          <tr>
            <th scope="col">What</th>
            <th scope="col" className={styles.number}>
              Now
            </th>
            <th scope="col" className={styles.number}>
              Limit
            </th>
            <th scope="col">Used</th>
          </tr>
        </thead>
        <tbody>
          {used.map(({ name, used, max }) => (
            <tr key={name}>
              <td>{tenantLimits.find((it) => it.name === name)?.label ?? name}</td>
              <td className={styles.number}>{toText(name, used)}</td>
              <td className={styles.number}>
                {max === null ? <span className={styles.soft}>none</span> : toText(name, max)}
              </td>
              <td>{max !== null && <Share used={used / max} />}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}
