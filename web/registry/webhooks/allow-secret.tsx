import { useQuery, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { workspaces } from '../../api/admin.ts'
import { allowSecret, type Secret, secrets } from '../../api/webhooks.ts'
import { FormDialog } from '../../kit/dialog.tsx'
import { Checkbox } from '../../kit/field.tsx'
import { ErrorPlace, LoadingPlace } from '../../kit/places.tsx'
import styles from '../registry.module.css'

type Props = { organizationId: string; secret: Secret; onClose(): void }

/** Chooses the workspaces whose webhooks may name a secret. */
export function AllowSecret({ organizationId, secret: { secretName, workspaceNames }, onClose }: Props) {
  const { data, error, refetch } = useQuery(workspaces)
  const [isForAll, setForAll] = useState(workspaceNames === null)
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set(workspaceNames))
  const client = useQueryClient()
  function choose(name: string, isChosen: boolean) {
    const next = new Set(chosen)
    if (isChosen) next.add(name)
    else next.delete(name)
    setChosen(next)
  }
  return (
    <FormDialog
      title={`Workspaces that may use ${secretName}`}
      action="Save"
      canSubmit={data !== undefined}
      onClose={onClose}
      onSubmit={async () => {
        const isThere = new Set(data?.map((it) => it.workspaceName))
        const names = [...chosen].filter((it) => isThere.has(it))
        await allowSecret(organizationId, secretName, isForAll ? null : names)
        await client.invalidateQueries(secrets(organizationId))
      }}
    >
      <Checkbox checked={isForAll} onChange={(event) => setForAll(event.target.checked)}>
        Every workspace, those to come too
      </Checkbox>
      {!isForAll && (
        <>
          {error && !data ? (
            <ErrorPlace error={error} onRetry={refetch} />
          ) : data === undefined ? (
            <LoadingPlace rows={3} />
          ) : (
            <fieldset className={styles.group}>
              <legend>Workspaces</legend>
              {data.map(({ workspaceName: name }) => (
                <Checkbox
                  key={name}
                  checked={chosen.has(name)}
                  onChange={(event) => choose(name, event.target.checked)}
                >
                  {name}
                </Checkbox>
              ))}
            </fieldset>
          )}
          <p className={styles.soft}>Deliveries of webhooks of other workspaces that name it fail from now on.</p>
        </>
      )}
    </FormDialog>
  )
}
