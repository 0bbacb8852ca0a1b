import { useQuery, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import type { Session } from '../api/accounts.ts'
import { endKey, keys, type ListedKey } from '../api/admin.ts'
import { Button } from '../kit/button.tsx'
import { FormDialog } from '../kit/dialog.tsx'
import { KeyEnd, KeyRights } from '../kit/keys/make-key.tsx'
import { EmptyPlace, ErrorPlace, LoadingPlace } from '../kit/places.tsx'
import { SearchField } from '../kit/search-field.tsx'
import { toAgo, toCountOf, toTime } from '../kit/text.ts'
import styles from './admin.module.css'
import { useAdminSearch } from './use-admin-search.ts'

/** The keys of everybody in the organization. Whoever has one makes it; admins end it. */
export function KeysSection({ reader }: { reader: Session }) {
  const { search, change } = useAdminSearch()
  const { data, error, refetch } = useQuery(keys)
  const [ended, setEnded] = useState<ListedKey>()
  const text = search.search ?? ''
  if (error) return <ErrorPlace error={error} onRetry={refetch} />
  if (!data) return <LoadingPlace />
  const has = (it: string | null) => it?.toLowerCase().includes(text.toLowerCase()) ?? false
  const shown = data.filter((it) => text === '' || has(it.userName) || has(it.name) || has(it.shownPrefix))
  return (
    <>
      <p className={styles.intro}>
        The service keeps the hash of a key and its first letters. A key that is ended gets an error within a second,
        and so do the browsers that signed in with it.
      </p>
      <div className={styles.tools}>
        <SearchField
          label="Search keys"
          placeholder="Owner, name or first letters"
          className={styles.search}
          text={text}
          onChange={(it) => change({ search: it || undefined })}
        />
        <span className={styles.faint}>{toCountOf(shown.length, 'key')}</span>
      </div>
      {shown.length === 0 ? (
        <EmptyPlace title="No key matches">{`None has ${text} in its owner, name or first letters.`}</EmptyPlace>
      ) : (
        <div className={styles.frame}>
          <table className={styles.table} aria-label="API keys">
            <thead>
              <tr>
                <th scope="col">Owner</th>
                <th scope="col">Name</th>
                <th scope="col">Begins with</th>
                <th scope="col">May</th>
                <th scope="col">Made</th>
                <th scope="col">Last used</th>
                <th scope="col">Ends</th>
                <th scope="col" className={styles.end}>
                  <span className="visually-hidden">Actions</span>
                </th>
              </tr>
            </thead>
            <tbody>
              {shown.map((it) => (
                <tr key={it.keyId}>
                  <td title={it.userName}>
                    {it.userName}
                    {it.kind === 'service account' && <span className={styles.badge}>service account</span>}
                  </td>
                  <td title={it.name ?? undefined}>
                    {it.name ?? <span className={styles.soft}>no name</span>}
                    {Object.keys(it.limits).length > 0 && (
                      <span className={styles.badge} title={JSON.stringify(it.limits)}>
                        own limits
                      </span>
                    )}
                  </td>
                  <td>
                    <code>{it.shownPrefix}…</code>
                  </td>
                  <td className={styles.soft}>
                    <KeyRights {...it} />
                  </td>
                  <td
                    className={styles.soft}
                    title={`${toTime(it.createdAt)}${it.createdBy ? ` by ${it.createdBy}` : ''}`}
                  >
                    {toAgo(it.createdAt)}
                  </td>
                  <td className={styles.soft}>{it.lastUsedAt === null ? 'never' : toAgo(it.lastUsedAt)}</td>
                  <td className={styles.soft}>
                    <KeyEnd {...it} />
                  </td>
                  <td className={styles.end}>
                    {reader.isAdmin && (
                      <Button
                        size="small"
                        onClick={() => setEnded(it)}
                        aria-label={`End the key ${it.shownPrefix} of ${it.userName}`}
                      >
                        End
                      </Button>
                    )}
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {ended && <EndKey it={ended} onClose={() => setEnded(undefined)} />}
    </>
  )
}

function EndKey({ it, onClose }: { it: ListedKey; onClose(): void }) {
  const client = useQueryClient()
  return (
    <FormDialog
      title={`End ${it.name ?? `the key ${it.shownPrefix}…`} of ${it.userName}?`}
      action="End key"
      danger
      onClose={onClose}
      onSubmit={async () => {
        await endKey(it.keyId)
        await client.invalidateQueries(keys)
      }}
    >
      <p>
        Programs that use it get an error within a second, and so do browsers that signed in with it. This cannot be
        undone.
      </p>
    </FormDialog>
  )
}
