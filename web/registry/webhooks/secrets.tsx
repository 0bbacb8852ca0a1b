import { useQuery, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { deleteSecret, type Secret, saveSecret, secrets } from '../../api/webhooks.ts'
import { Button } from '../../kit/button.tsx'
import { FormDialog } from '../../kit/dialog.tsx'
import { TextField } from '../../kit/field.tsx'
import { ErrorPlace, LoadingPlace } from '../../kit/places.tsx'
import { toAgo, toTime } from '../../kit/text.ts'
import styles from '../registry.module.css'
import { AllowSecret } from './allow-secret.tsx'

type Open = { set: string | undefined } | { remove: string } | { allow: Secret }

/** The secrets of the organization by name, for admins. Values go in and never come out. */
export function Secrets({ organizationId }: { organizationId: string }) {
  const { data, error, refetch } = useQuery(secrets(organizationId))
  const [open, setOpen] = useState<Open>()
  const close = () => setOpen(undefined)
  return (
    <section className={styles.section} aria-labelledby="secrets">
      <div className={styles.sectionHeader}>
        <h2 id="secrets">Secrets of the organization</h2>
        <span className={styles.gap} />
        <Button onClick={() => setOpen({ set: undefined })}>Add a secret</Button>
      </div>
      <p className={styles.text}>
        A webhook sends the value of a secret as its Authorization header, by name. Nobody can read a value, admins
        neither.
      </p>
      {error && !data ? (
        <ErrorPlace error={error} onRetry={refetch} />
      ) : data === undefined ? (
        <LoadingPlace rows={2} />
      ) : (
        data.length > 0 && (
          <div className={styles.frame}>
            <table className={styles.table} aria-label="Secrets">
              <thead>
                <tr>
                  <th scope="col">Name</th>
                  <th scope="col">For webhooks of</th>
                  <th scope="col">Last set</th>
                  <th scope="col" className={styles.end}>
                    <span className="visually-hidden">Actions</span>
                  </th>
                </tr>
              </thead>
              <tbody>
                {data.map((secret) => {
                  const { secretName: name, updatedAt, workspaceNames } = secret
                  const allowed = workspaceNames === null ? 'every workspace' : workspaceNames.join(', ')
                  return (
                    <tr key={name}>
                      <td title={name}>{name}</td>
                      <td className={styles.soft} title={allowed}>
                        {allowed || 'no workspace'}
                      </td>
                      <td className={styles.soft} title={toTime(updatedAt)}>
                        {toAgo(updatedAt)}
                      </td>
                      <td className={styles.end}>
                        <div className={styles.actions}>
                          <Button
                            size="small"
                            aria-label={`Workspaces of ${name}`}
                            onClick={() => setOpen({ allow: secret })}
                          >
                            Workspaces
                          </Button>
                          <Button size="small" aria-label={`Replace ${name}`} onClick={() => setOpen({ set: name })}>
                            Replace
                          </Button>
                          <Button size="small" aria-label={`Delete ${name}`} onClick={() => setOpen({ remove: name })}>
                            Delete
                          </Button>
                        </div>
                      </td>
                    </tr>
                  )
                })}
              </tbody>
            </table>
          </div>
        )
      )}
      {open && 'set' in open && <SetSecret organizationId={organizationId} name={open.set} onClose={close} />}
      {open && 'allow' in open && <AllowSecret organizationId={organizationId} secret={open.allow} onClose={close} />}
      {open && 'remove' in open && <DeleteSecret organizationId={organizationId} name={open.remove} onClose={close} />}
    </section>
  )
}

type Props = { organizationId: string; onClose(): void }

function SetSecret({ organizationId, name: given, onClose }: Props & { name: string | undefined }) {
  const [name, setName] = useState(given ?? '')
  const [value, setValue] = useState('')
  const client = useQueryClient()
  return (
    <FormDialog
      title={given === undefined ? 'Add a secret' : `Replace the value of ${given}`}
      action={given === undefined ? 'Add secret' : 'Replace value'}
      canSubmit={name.trim() !== '' && value !== ''}
      onClose={onClose}
      onSubmit={async () => {
        await saveSecret(organizationId, name.trim(), value)
        await client.invalidateQueries(secrets(organizationId))
      }}
    >
      {given === undefined && (
        <TextField label="Name" maxLength={200} value={name} onChange={(event) => setName(event.target.value)} />
      )}
      <TextField
        label="Value"
        type="password"
        autoComplete="off"
        hint="Sent as it is, such as “Bearer ghp_…”."
        maxLength={8000}
        value={value}
        onChange={(event) => setValue(event.target.value)}
      />
    </FormDialog>
  )
}

function DeleteSecret({ organizationId, name, onClose }: Props & { name: string }) {
  const client = useQueryClient()
  return (
    <FormDialog
      title={`Delete the secret ${name}?`}
      action={`Delete ${name}`}
      danger
      onClose={onClose}
      onSubmit={async () => {
        await deleteSecret(organizationId, name)
        await client.invalidateQueries(secrets(organizationId))
      }}
    >
      <p>Deliveries of webhooks that name it fail until there is one of this name again.</p>
    </FormDialog>
  )
}
