import { useInfiniteQuery, useQueryClient } from '@tanstack/react-query'
import { ApiError } from '../../api/http.ts'
import { type DeliveriesAsked, type Delivery, readDeliveries, redeliver } from '../../api/webhooks.ts'
import { Button } from '../../kit/button.tsx'
import { EmptyPlace, ErrorPlace, LoadingPlace } from '../../kit/places.tsx'
import { toAgo, toTime } from '../../kit/text.ts'
import { toast, toastError } from '../../kit/toast.tsx'
import styles from '../registry.module.css'
import { toHost } from './words.ts'

const pageSize = 50
/** Deliveries are tried meanwhile. */
const againMs = 2_000
const restingMs = 10_000

/** What was sent to webhooks and what they answered, the newest first; each can be sent again. */
export function Deliveries({ asked, empty }: { asked: DeliveriesAsked; empty: string }) {
  const client = useQueryClient()
  const queryKey = ['webhook-deliveries', asked.workspaceName, asked]
  const pages = useInfiniteQuery({
    queryKey,
    queryFn: ({ pageParam: page, signal }) => readDeliveries({ ...asked, page, pageSize }, signal),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (last) => last.nextPage ?? undefined,
    refetchInterval: ({ state }) => {
      if (state.error) return false
      return state.data?.pages[0]?.deliveries.some((it) => it.state === 'pending') ? againMs : restingMs
    },
  })
  async function sendAgain({ deliveryId, url }: Delivery) {
    await redeliver(deliveryId)
    await client.invalidateQueries({ queryKey: ['webhook-deliveries', asked.workspaceName] })
    toast(`Sent again to ${toHost(url)}`)
  }
  if (pages.error instanceof ApiError && pages.error.status === 403) {
    return <p className={styles.soft}>{pages.error.message}</p>
  }
  if (pages.error && !pages.data) return <ErrorPlace error={pages.error} onRetry={() => pages.refetch()} />
  if (!pages.data) return <LoadingPlace rows={3} />
  const all = pages.data.pages.flatMap((it) => it.deliveries)
  if (all.length === 0) return <EmptyPlace title="No delivery">{empty}</EmptyPlace>
  return (
    <>
      <div className={styles.frame}>
        <table className={styles.table} aria-label="Deliveries">
          <thead>
            <tr>
              <th scope="col">Event</th>
              <th scope="col">To</th>
              <th scope="col">State</th>
              <th scope="col">Attempts</th>
              <th scope="col" className={styles.end}>
                <span className="visually-hidden">Actions</span>
              </th>
            </tr>
          </thead>
          <tbody>
            {all.map((it) => (
              <tr key={it.deliveryId}>
                <td>
                  <p>{it.event}</p>
                  <p className={styles.second} title={toTime(it.createdAt)}>
                    {[it.registryModelName, it.version].filter(Boolean).join(' ')} {toAgo(it.createdAt)}
                  </p>
                </td>
                <td title={it.url}>{toHost(it.url)}</td>
                <td>
                  <span className={styles.state} data-state={it.state} title={stateTexts[it.state]}>
                    {it.state}
                  </span>
                </td>
                <td>
                  <Attempts delivery={it} />
                </td>
                <td className={styles.end}>
                  <Button
                    size="small"
                    aria-label={`Send again: delivery ${it.deliveryId}`}
                    onClick={() => sendAgain(it).catch(toastError)}
                  >
                    Send again
                  </Button>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {pages.hasNextPage && (
        <p>
          <Button size="small" onClick={() => pages.fetchNextPage()} disabled={pages.isFetchingNextPage}>
            Show older deliveries
          </Button>
        </p>
      )}
    </>
  )
}

const stateTexts = {
  pending: 'It is sent, or sent again, by itself',
  delivered: 'The receiver has answered that it took it',
  failed: 'No attempt is left',
  cancelled: 'Its webhook was deleted before it was sent',
  held: 'It waits until the webhook is enabled',
}

const shownMax = 3

function Attempts({ delivery: { attempts, nextAttemptAt } }: { delivery: Delivery }) {
  const left = attempts.length - shownMax
  return (
    <div className={styles.attempts}>
      {left > 0 && <span>{left} earlier</span>}
      {attempts.slice(-shownMax).map(({ at, status, failure }) => (
        <span key={at} title={toTime(at)}>
          {status ?? failure}, {toAgo(at)}
        </span>
      ))}
      {nextAttemptAt !== null && (
        <span>next {nextAttemptAt <= Date.now() ? 'now' : `at ${toTime(nextAttemptAt)}`}</span>
      )}
    </div>
  )
}
