import { useQuery, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { createKey, type Key, ownKeys, revokeKey, type Session } from '../api/accounts.ts'
import { Button } from '../kit/button.tsx'
import { FormDialog } from '../kit/dialog.tsx'
import { PlusIcon } from '../kit/icons.tsx'
import { KeyEnd, KeyRights, MakeKey } from '../kit/keys/make-key.tsx'
import { NewKey } from '../kit/new-key.tsx'
import { ErrorPlace, LoadingPlace } from '../kit/places.tsx'
import { toAgo, toTime } from '../kit/text.ts'
import styles from './settings.module.css'

/** The reader's keys. */
export function Keys({ reader }: { reader: Session }) {
  const { data, error, refetch } = useQuery(ownKeys)
  const [made, setMade] = useState<string>()
  const [open, setOpen] = useState<'new' | Key>()
  const client = useQueryClient()
  const close = () => setOpen(undefined)
  return (
    <>
      <p className={styles.intro}>
        Training code and other programs send a key. The service keeps only its hash. Make one for each machine, so that
        you can end one without the others, and let it do no more than it has to.
      </p>
      {reader.kind === 'user' && (
        <div className={styles.tools}>
          <Button look="primary" onClick={() => setOpen('new')}>
            <PlusIcon size={14} /> New key
          </Button>
        </div>
      )}
      {made && <NewKey apiKey={made} />}
      {error ? (
        <ErrorPlace error={error} onRetry={refetch} />
      ) : data ? (
        <div className={styles.frame}>
          <table className={styles.table}>
            <thead>
              <tr>
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
              {data.map((it) => (
                <tr key={it.keyId}>
                  <td title={it.name ?? undefined}>
                    {it.name ?? <span className={styles.soft}>no name</span>}
                    {it.isCurrent && <span className={styles.badge}>of this session</span>}
                  </td>
                  <td>
                    <code>{it.shownPrefix}…</code>
                  </td>
                  <td className={styles.soft}>
                    <KeyRights {...it} />
                  </td>
                  <td className={styles.soft} title={toTime(it.createdAt)}>
                    {toAgo(it.createdAt)}
                  </td>
                  <td className={styles.soft}>{it.lastUsedAt === null ? 'never' : toAgo(it.lastUsedAt)}</td>
                  <td className={styles.soft}>
                    <KeyEnd {...it} />
                  </td>
                  <td className={styles.end}>
                    {reader.kind === 'user' && (
                      <Button
                        size="small"
                        onClick={() => setOpen(it)}
                        aria-label={`End key ${it.name ?? it.shownPrefix}`}
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
      ) : (
        <LoadingPlace rows={3} />
      )}
      {open === 'new' && (
        <MakeKey
          title="New API key"
          workspaceNames={reader.workspaceNames}
          onClose={close}
          make={async (fields) => {
            setMade((await createKey(fields)).apiKey)
            await client.invalidateQueries(ownKeys)
          }}
        />
      )}
      {typeof open === 'object' && <EndKey it={open} onClose={close} />}
    </>
  )
}

function EndKey({ it, onClose }: { it: Key; onClose(): void }) {
  const client = useQueryClient()
  return (
    <FormDialog
      title={`End ${it.name ?? `the key ${it.shownPrefix}…`}?`}
      action="End key"
      danger
      onClose={onClose}
      onSubmit={async () => {
        await revokeKey(it.keyId)
        await client.invalidateQueries()
      }}
    >
      <p>
        Programs that use it get an error within a second, and so do browsers that signed in with it. This cannot be
        undone.
      </p>
      {it.isCurrent && <p>You signed in with this key: you will be signed out.</p>}
    </FormDialog>
  )
}
