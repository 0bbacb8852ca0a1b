import { useQuery, useQueryClient } from '@tanstack/react-query'
import { useEffect, useState } from 'react'
import { session } from '../api/accounts.ts'
import { shareCode } from '../api/http.ts'
import { type Notification, notifications, setSeen } from '../api/notifications.ts'
import { IconButton, join } from '../kit/button.tsx'
import { BellIcon } from '../kit/icons.tsx'
import { PageLink, toPagePath } from '../kit/page-link.tsx'
import { ErrorPlace, LoadingPlace } from '../kit/places.tsx'
import { Popover } from '../kit/popover.tsx'
import { toAgo, toCount } from '../kit/text.ts'
import styles from './notifications.module.css'

/** A bell with how much is new since the last visit, and what that is. */
export function Notifications() {
  const reader = useQuery(session).data
  // Who reads by a share code reads nothing of an account.
  const isOwn = reader != null && shareCode() === undefined
  const { data = [] } = useQuery({ ...notifications, enabled: isOwn })
  const fresh = data.filter((it) => it.isNew).length
  if (!isOwn) return null
  return (
    <Popover
      label="Notifications"
      align="end"
      className={styles.panel}
      trigger={(toggle, isOpen) => (
        <IconButton
          label={fresh > 0 ? `Notifications, ${fresh} new` : 'Notifications'}
          aria-expanded={isOpen}
          onClick={toggle}
        >
          <BellIcon />
          {fresh > 0 && (
            <span className={styles.count} aria-hidden="true">
              {fresh > 99 ? '99+' : fresh}
            </span>
          )}
        </IconButton>
      )}
    >
      {(close) => <Told close={close} />}
    </Popover>
  )
}

/** What happened, and thereby seen. It stays as it was when the panel was opened, or when it came to the open panel. */
function Told({ close }: { close(): void }) {
  const { data, error, refetch } = useQuery(notifications)
  const client = useQueryClient()
  const [shown, setShown] = useState(data)
  if (shown === undefined && data !== undefined) setShown(data)
  useEffect(() => {
    if (!shown?.some((it) => it.isNew)) return
    client.setQueryData(
      notifications.queryKey,
      shown.map((it) => ({ ...it, isNew: false })),
    )
    // If it does not get through, the same is new once more.
    void setSeen(Math.max(...shown.map((it) => it.at))).catch(() => undefined)
  }, [client, shown])
  if (shown === undefined)
    return error ? <ErrorPlace error={error} onRetry={() => void refetch()} /> : <LoadingPlace rows={2} />
  if (shown.length === 0) {
    return (
      <p className={styles.none}>
        Nothing yet. Runs of yours that end, and alerts of your workspaces, are told of here for 14 days.
      </p>
    )
  }
  return (
    <ul className={styles.list}>
      {shown.map((it) => (
        <li key={`${it.kind} ${it.experimentKey ?? it.modelName} ${it.alertId} ${it.at}`}>
          <PageLink path={toPath(it)} onClick={close} className={join(it.isNew && styles.fresh)}>
            <span className={join(styles.dot, styles[it.kind])} aria-hidden="true" />
            <span className={styles.what}>
              <b>{toName(it)}</b> {sentences[it.kind]}
              {it.times > 1 && ` ${toCount(it.times)} times`}
              {it.error && <small>{it.error}</small>}
            </span>
            <span className={styles.where}>
              {it.projectName === null ? it.workspaceName : `${it.workspaceName}/${it.projectName}`}
              <time dateTime={new Date(it.at).toISOString()}>{toAgo(it.at)}</time>
            </span>
          </PageLink>
        </li>
      ))}
    </ul>
  )
}

const sentences = { finished: 'finished', crashed: 'crashed', lost: 'fell silent', alert: 'fired' }

const toName = ({ alertName, experimentName, experimentKey }: Notification) =>
  alertName ?? (experimentName || experimentKey) ?? ''

function toPath({ workspaceName, projectName, experimentKey, modelName }: Notification): string {
  if (projectName !== null && experimentKey !== null) return toPagePath(workspaceName, projectName, experimentKey)
  if (modelName !== null) return toPagePath(workspaceName, '-', 'production', modelName)
  return projectName === null ? toPagePath(workspaceName) : toPagePath(workspaceName, projectName, '-', 'alerts')
}
