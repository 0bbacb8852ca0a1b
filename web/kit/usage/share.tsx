import styles from './share.module.css'

const high = 0.8

/** How much of a limit is used, from 0 to 1. */
export function Share({ used }: { used: number }) {
  const percent = used > 0 && used < 0.01 ? '< 1 %' : `${Math.round(used * 100)} %`
  return (
    <div className={styles.share}>
      <span className={styles.bar} aria-hidden="true">
        <span
          data-state={used >= 1 ? 'wrong' : used > high ? 'warning' : 'ok'}
          style={{ width: `${Math.min(100, used * 100)}%` }}
        />
      </span>
      {percent}
    </div>
  )
}
