import { useQuery } from '@tanstack/react-query'
import { type Backup, backups } from '../api/admin.ts'
import { EmptyPlace, ErrorPlace, LoadingPlace } from '../kit/places.tsx'
import { Snippet } from '../kit/snippet.tsx'
import { toAgo, toBytes, toDuration, toTime } from '../kit/text.ts'
import styles from './admin.module.css'

const againMs = 60_000

const make = `svc backup --to /mnt/backups --keep 14    # while the service runs
svc backup verify --to /mnt/backups       # reads all of it, and names what is damaged`
const restore = 'svc restore --from /mnt/backups            # into empty stores; the service is stopped'

/** Which backups are known, and how to make one. */
export function BackupsSection() {
  const { data, error, refetch } = useQuery({ ...backups, refetchInterval: againMs })
  if (error && !data) return <ErrorPlace error={error} onRetry={refetch} />
  if (!data) return <LoadingPlace />
  const last = data[0]
  return (
    <>
      <p className={styles.intro}>
        A backup holds everything that was acknowledged before it began. <code>svc backup</code> tells the service when
        one is finished. Copies that were made in another way are not known here, nor whether a backup is still in its
        place: <code>svc backup verify</code> looks.
      </p>
      {last === undefined ? (
        <EmptyPlace title="No backup is known">
          Run the first command below on the machine of the service, and again each night. If all disks fail at once,
          what was written since the last backup is lost.
        </EmptyPlace>
      ) : (
        <>
          <p className={styles.sentence} title={toTime(last.startedAt)}>
            The last one has everything that was acknowledged until {toTime(last.startedAt)} ({toAgo(last.startedAt)}).
          </p>
          <Table backups={data} />
        </>
      )}
      <h2>Make and verify one</h2>
      <Snippet code={make} label="Copy the commands" />
      <p className={styles.soft}>
        The place is a folder, or a bucket as <code>s3://access:secret@host/bucket</code>. The master key is in no
        backup: keep it where your other secrets are.
      </p>
      <h2>Restore the last one</h2>
      <Snippet code={restore} label="Copy the command" />
    </>
  )
}

function Table({ backups }: { backups: Backup[] }) {
  return (
    <div className={styles.frame}>
      <table className={styles.table} aria-label="Backups">
        <thead>
          <tr>
            <th scope="col">Began</th>
            <th scope="col">Took</th>
            <th scope="col" className={styles.number}>
              Size
            </th>
            <th scope="col">Place</th>
            <th scope="col">Id</th>
            <th scope="col">By svc</th>
          </tr>
        </thead>
        <tbody>
          {backups.map((it) => (
            <tr key={it.backupId}>
              <td title={toTime(it.startedAt)}>{toAgo(it.startedAt)}</td>
              <td className={styles.soft}>{toDuration(it.finishedAt - it.startedAt)}</td>
              <td className={styles.number}>{toBytes(it.bytes)}</td>
              <td title={it.place}>{it.place}</td>
              <td>
                <code>{it.backupId}</code>
              </td>
              <td className={styles.soft}>{it.version}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}
