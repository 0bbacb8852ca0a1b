import { useQuery, useQueryClient } from '@tanstack/react-query'
import { type FormEvent, useState } from 'react'
import type { Session } from '../api/accounts.ts'
import { type Retention, retention, setRetention } from '../api/admin.ts'
import { Button } from '../kit/button.tsx'
import { FormDialog } from '../kit/dialog.tsx'
import { TextField } from '../kit/field.tsx'
import { ErrorPlace, LoadingPlace } from '../kit/places.tsx'
import { toAgo, toCountOf, toDay, toTime } from '../kit/text.ts'
import { toast, toastError } from '../kit/toast.tsx'
import styles from './admin.module.css'
import { useAdminSearch } from './use-admin-search.ts'
import { toTypeName, toUnit } from './words.ts'
import { WorkspaceSelect } from './workspace-select.tsx'

/** What is kept for a time only, as `store/retention.ts` names it. */
const kept = ['metrics', 'systemMetrics', 'output', 'events', 'labels']

/** How long a workspace keeps its data, and what was deleted by that. */
export function RetentionSection({ reader }: { reader: Session }) {
  const { search, change } = useAdminSearch()
  const workspaceName = search.workspace ?? reader.defaultWorkspaceName ?? reader.workspaceNames[0] ?? ''
  const { data, error, refetch } = useQuery({ ...retention(workspaceName), enabled: workspaceName !== '' })
  return (
    <>
      <p className={styles.intro}>
        A workspace keeps everything for ever unless a number of days is set. Age counts from when the service accepted
        the data, by whole days (UTC), and what is older is deleted for good within the hour. Parameters, tags, files
        and models are kept.
      </p>
      <div className={styles.tools}>
        <WorkspaceSelect value={workspaceName} onChange={(workspace) => change({ workspace })} />
      </div>
      {error ? (
        <ErrorPlace error={error} onRetry={refetch} />
      ) : data ? (
        <>
          <RetentionForm key={workspaceName} workspaceName={workspaceName} given={data.keptDays} />
          <Deletions deletions={data.deletions} />
        </>
      ) : (
        <LoadingPlace rows={4} />
      )}
    </>
  )
}

type Form = { workspaceName: string; given: Retention['keptDays'] }

function RetentionForm({ workspaceName, given }: Form) {
  const [texts, setTexts] = useState<Record<string, string>>({})
  const [isAsking, setAsking] = useState(false)
  const client = useQueryClient()
  const days = Object.fromEntries(
    Object.entries(texts).map(([name, text]) => [name, text.trim() === '' ? null : Number(text)]),
  )
  /** What is kept for a shorter time than now. */
  const shorter = Object.entries(days).filter(
    (it): it is [string, number] => it[1] !== null && it[1] < (given[it[0]] ?? Number.POSITIVE_INFINITY),
  )
  async function save() {
    await setRetention(workspaceName, days)
    // The fields would have what was before until this has come, and what is typed then would be added to that.
    await client.invalidateQueries(retention(workspaceName))
    // What was typed meanwhile stays.
    setTexts((now) => (now === texts ? {} : now))
    toast('The retention is saved.')
  }
  function submit(event: FormEvent) {
    event.preventDefault()
    if (shorter.length > 0) setAsking(true)
    else save().catch(toastError)
  }
  return (
    <>
      <form onSubmit={submit} className={styles.section}>
        <div className={styles.fields}>
          {kept.map((name) => (
            <TextField
              key={name}
              label={`${toTypeName(name)}, days`}
              type="number"
              min={1}
              max={36_500}
              step={1}
              placeholder="for ever"
              value={texts[name] ?? given[name] ?? ''}
              onChange={(event) => setTexts({ ...texts, [name]: event.target.value })}
            />
          ))}
        </div>
        <div className={styles.tools}>
          <Button type="submit" look="primary" disabled={Object.keys(texts).length === 0}>
            Save retention
          </Button>
        </div>
      </form>
      {isAsking && (
        <FormDialog
          title={`Delete older data of ${workspaceName}?`}
          action="Save and delete"
          danger
          onClose={() => setAsking(false)}
          onSubmit={save}
        >
          <p>Within the hour this is deleted, for good:</p>
          <ul className={styles.list}>
            {shorter.map(([name, it]) => (
              <li key={name}>{`${toTypeName(name)} accepted more than ${toCountOf(it, 'day')} ago`}</li>
            ))}
          </ul>
        </FormDialog>
      )}
    </>
  )
}

function Deletions({ deletions }: Pick<Retention, 'deletions'>) {
  return (
    <>
      <h2>What was deleted</h2>
      {deletions.length === 0 ? (
        <p className={styles.soft}>Nothing of this workspace was deleted by its retention.</p>
      ) : (
        <div className={styles.frame}>
          <table className={styles.table} aria-label="What was deleted">
            <thead>
              <tr>
                <th scope="col">When</th>
                <th scope="col">What</th>
                <th scope="col">Accepted before</th>
                <th scope="col" className={styles.number}>
                  Amount
                </th>
              </tr>
            </thead>
            <tbody>
              {deletions.map((it) => (
                <tr key={`${it.type} ${it.at}`}>
                  <td title={toTime(it.at)}>{toAgo(it.at)}</td>
                  <td>{toTypeName(it.type)}</td>
                  <td className={styles.soft}>{toDay(it.upTo)}</td>
                  <td className={styles.number}>{toCountOf(it.rows, toUnit(it.type))}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </>
  )
}
