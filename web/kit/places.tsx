import type { ReactNode } from 'react'
import { ApiError, baseUrl } from '../api/http.ts'
import { Button } from './button.tsx'
import styles from './places.module.css'

/** What stands where there is nothing yet: it says what belongs there and how to get it. */
export function EmptyPlace({ title, children, action }: { title: string; children?: ReactNode; action?: ReactNode }) {
  return (
    <div className={styles.place}>
      <h2>{title}</h2>
      {children && <div className={styles.text}>{children}</div>}
      {action}
    </div>
  )
}

/** What stands where a read has failed: the reason, and what to do. */
export function ErrorPlace({ error, onRetry }: { error: unknown; onRetry?: () => void }) {
  const { message } = error as Error
  const status = error instanceof ApiError ? error.status : undefined
  return (
    <div className={styles.place} role="alert">
      <h2>{toTitle(status)}</h2>
      <p className={styles.text}>{message}</p>
      <div className={styles.actions}>
        {onRetry && <Button onClick={onRetry}>Try again</Button>}
        {(status === 400 || status === 403 || status === 404) && <a href={baseUrl.href}>All projects</a>}
      </div>
    </div>
  )
}

function toTitle(status: number | undefined): string {
  if (status === 0) return 'No answer'
  if (status === 401) return 'Not signed in'
  if (status === 403) return 'Not allowed'
  if (status === 404 || status === 400) return 'Not found'
  return 'This did not work'
}

/** Grey bars in the place of rows that are on their way. They appear only after a moment. */
export function LoadingPlace({ rows = 6 }: { rows?: number }) {
  return (
    <div className={styles.loading} role="status" aria-label="Loading">
      {Array.from({ length: rows }, (_, at) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: the bars are all the same
        <div key={at} className={styles.bar} />
      ))}
    </div>
  )
}
