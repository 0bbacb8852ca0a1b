import { useQuery, useQueryClient } from '@tanstack/react-query'
import { endSession, ownSessions } from '../api/accounts.ts'
import { Button } from '../kit/button.tsx'
import { ErrorPlace, LoadingPlace } from '../kit/places.tsx'
import { toAgo, toTime } from '../kit/text.ts'
import { toastError } from '../kit/toast.tsx'
import styles from './settings.module.css'
import { toBrowserName } from './user-agent.ts'

/** The browsers that are signed in as the reader. */
export function Sessions() {
  const { data, error, refetch } = useQuery(ownSessions)
  const client = useQueryClient()
  if (error) return <ErrorPlace error={error} onRetry={refetch} />
  if (!data) return <LoadingPlace rows={3} />
  const end = (sessionId: string) =>
    endSession(sessionId)
      .then(() => client.invalidateQueries())
      .catch(toastError)
  return (
    <>
      <p className={styles.intro}>
        Browsers that are signed in as you. An ended session stops working within a second.
      </p>
      {data.length === 0 ? (
        <p className={styles.soft}>No browser is signed in.</p>
      ) : (
        <div className={styles.frame}>
          <table className={styles.table}>
            <thead>
              <tr>
                <th scope="col">Browser</th>
                <th scope="col">Signed in</th>
                <th scope="col">With</th>
                <th scope="col">Ends by itself</th>
                <th scope="col" className={styles.end}>
                  <span className="visually-hidden">Actions</span>
                </th>
              </tr>
            </thead>
            <tbody>
              {data.map((it) => (
                <tr key={it.sessionId}>
                  <td title={it.userAgent}>
                    {toBrowserName(it.userAgent)}
                    {it.isCurrent && <span className={styles.badge}>this one</span>}
                  </td>
                  <td className={styles.soft} title={toTime(it.createdAt)}>
                    {toAgo(it.createdAt)}
                  </td>
                  <td className={styles.soft}>
                    {it.shownPrefix ? <code>{it.shownPrefix}…</code> : (it.provider ?? 'a link')}
                  </td>
                  <td className={styles.soft}>{toTime(it.expiresAt)}</td>
                  <td className={styles.end}>
                    <Button
                      size="small"
                      onClick={() => end(it.sessionId)}
                      aria-label={
                        it.isCurrent
                          ? undefined
                          : `End session of ${toBrowserName(it.userAgent)}, signed in ${toAgo(it.createdAt)}`
                      }
                    >
                      {it.isCurrent ? 'Sign out' : 'End'}
                    </Button>
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </>
  )
}
