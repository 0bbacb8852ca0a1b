import { useQuery } from '@tanstack/react-query'
import { type Sender, usage } from '../api/admin.ts'
import { PageLink, toPagePath } from '../kit/page-link.tsx'
import { ErrorPlace, LoadingPlace } from '../kit/places.tsx'
import { toAgo, toBytes, toCount, toTime } from '../kit/text.ts'
import { Share } from '../kit/usage/share.tsx'
import styles from './admin.module.css'
import { toTypeName } from './words.ts'

const againMs = 5_000

/** What the experiments and models of a workspace send now, each beside its limit, and what was over one. */
export function UsedNow({ workspaceName }: { workspaceName: string }) {
  const { data, error, refetch } = useQuery({ ...usage(workspaceName), refetchInterval: againMs })
  if (error && !data) return <ErrorPlace error={error} onRetry={refetch} />
  if (!data) return <LoadingPlace rows={3} />
  const rows = data.types.flatMap(({ type, senders }) => senders.map((it) => ({ type, ...it })))
  const { fileBytes, fileBytesMax } = data
  return (
    <>
      <h2>Used now</h2>
      {rows.length === 0 ? (
        <p className={styles.soft}>Nothing was sent to this workspace in the last minute.</p>
      ) : (
        <div className={styles.frame}>
          <table className={styles.table} aria-label="Used now">
            <thead>
              <tr>
                <th scope="col">What</th>
                <th scope="col">Experiment or model</th>
                <th scope="col" className={styles.number}>
                  In the last minute
                </th>
                <th scope="col" className={styles.number}>
                  Limit
                </th>
                <th scope="col">Used</th>
              </tr>
            </thead>
            <tbody>
              {rows.map((it) => (
                <tr key={`${it.type} ${it.experimentKey ?? it.name}`}>
                  <td className={styles.soft}>{toTypeName(it.type)}</td>
                  <td title={it.name}>
                    <Name sender={it} workspaceName={workspaceName} />
                  </td>
                  <td className={styles.number}>{toCount(it.lastMinute)}</td>
                  <td className={styles.number} title={`Set for the ${it.given}`}>
                    {toCount(it.perMinute)}
                  </td>
                  <td>
                    <Share used={it.lastMinute / it.perMinute} />
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {data.experiments.length > 0 && (
        <div className={styles.frame}>
          <table className={styles.table} aria-label="Metrics of these experiments">
            <thead>
              <tr>
                <th scope="col">Experiment</th>
                <th scope="col" className={styles.number}>
                  Metric names
                </th>
                <th scope="col">Of the limit</th>
                <th scope="col" className={styles.number}>
                  Points of the longest metric
                </th>
                <th scope="col">Of the limit</th>
              </tr>
            </thead>
            <tbody>
              {data.experiments.map((it) => (
                <tr key={it.experimentKey}>
                  <td title={it.name}>
                    <PageLink path={toPagePath(workspaceName, it.projectName, it.experimentKey)}>{it.name}</PageLink>
                  </td>
                  <td className={styles.number}>{toCount(it.metricNames)}</td>
                  <td title={`${toCount(it.metricNamesMax)} at most`}>
                    <Share used={it.metricNames / it.metricNamesMax} />
                  </td>
                  <td className={styles.number}>{toCount(it.pointsMost)}</td>
                  <td title={`${toCount(it.pointsPerMetricMax)} at most`}>
                    <Share used={it.pointsMost / it.pointsPerMetricMax} />
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      <p className={styles.soft}>
        {`Files take ${toBytes(fileBytes)}`}
        {fileBytesMax === null ? ', without a limit.' : ` of at most ${toBytes(fileBytesMax)}.`}
      </p>
      {data.throttled.length > 0 && (
        <>
          <h2>Held back in the last hour</h2>
          <div className={styles.frame}>
            <table className={styles.table} aria-label="Held back in the last hour">
              <thead>
                <tr>
                  <th scope="col">Experiment</th>
                  <th scope="col">Reason</th>
                  <th scope="col">Last</th>
                </tr>
              </thead>
              <tbody>
                {data.throttled.map((it) => (
                  <tr key={`${it.experimentKey} ${it.reason}`}>
                    <td title={it.name}>
                      <PageLink path={toPagePath(workspaceName, it.projectName, it.experimentKey)}>{it.name}</PageLink>
                    </td>
                    <td className={styles.details}>{it.reason}</td>
                    <td className={styles.soft} title={toTime(it.lastAt)}>
                      {toAgo(it.lastAt)}
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        </>
      )}
    </>
  )
}

function Name({ sender, workspaceName }: { sender: Sender; workspaceName: string }) {
  const { experimentKey, projectName, name } = sender
  if (experimentKey === null || projectName === null) return name
  return <PageLink path={toPagePath(workspaceName, projectName, experimentKey)}>{name}</PageLink>
}
