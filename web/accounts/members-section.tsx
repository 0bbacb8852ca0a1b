import { useQuery, useQueryClient } from '@tanstack/react-query'
import { useId, useState } from 'react'
import { members, type Role, removeMember, roles, type Session, setMember } from '../api/accounts.ts'
import { Button } from '../kit/button.tsx'
import { FormDialog } from '../kit/dialog.tsx'
import { Select, TextField } from '../kit/field.tsx'
import { Choice } from '../kit/keys/make-key.tsx'
import { ErrorPlace, LoadingPlace } from '../kit/places.tsx'
import { toastError } from '../kit/toast.tsx'
import styles from './settings.module.css'

/** Who uses a workspace. */
export function Members({ reader }: { reader: Session }) {
  const [workspaceName, setWorkspace] = useState(reader.defaultWorkspaceName ?? reader.workspaceNames[0] ?? '')
  const { data, error, refetch } = useQuery({ ...members(workspaceName), enabled: workspaceName !== '' })
  const [open, setOpen] = useState<{ add: true } | { remove: string }>()
  const selectId = useId()
  const client = useQueryClient()
  const close = () => setOpen(undefined)
  const changeRole = (userName: string, role: Role) =>
    setMember({ workspaceName, userName, role })
      .catch(toastError)
      .finally(() => client.invalidateQueries(members(workspaceName)))
  if (workspaceName === '') return <p className={styles.soft}>You are a member of no workspace.</p>
  return (
    <>
      <p className={styles.intro}>
        Viewers read everything in the workspace. Editors also log and change it. Owners also choose the members and the
        webhooks.
      </p>
      <div className={styles.tools}>
        <label htmlFor={selectId}>Workspace</label>
        <Select id={selectId} value={workspaceName} onChange={(event) => setWorkspace(event.target.value)}>
          {reader.workspaceNames.map((it) => (
            <option key={it}>{it}</option>
          ))}
        </Select>
        {data?.mayManage && (
          <Button look="primary" onClick={() => setOpen({ add: true })}>
            Add a member
          </Button>
        )}
      </div>
      {error ? (
        <ErrorPlace error={error} onRetry={refetch} />
      ) : data ? (
        <div className={styles.frame}>
          <table className={styles.table}>
            <thead>
              <tr>
                <th scope="col">Name</th>
                <th scope="col">Role</th>
                <th scope="col" className={styles.end}>
                  <span className="visually-hidden">Actions</span>
                </th>
              </tr>
            </thead>
            <tbody>
              {data.members.map((it) => (
                <tr key={it.userName}>
                  <td title={it.userName}>{it.userName}</td>
                  <td className={styles.soft}>
                    {data.mayManage ? (
                      <Select
                        className={styles.role}
                        aria-label={`Role of ${it.userName}`}
                        value={it.role}
                        onChange={(event) => changeRole(it.userName, event.target.value as Role)}
                      >
                        {roles.map((role) => (
                          <option key={role}>{role}</option>
                        ))}
                      </Select>
                    ) : (
                      it.role
                    )}
                    {it.kind === 'service account' && <span className={styles.badge}>service account</span>}
                  </td>
                  <td className={styles.end}>
                    {data.mayManage && it.kind === 'user' && (
                      <Button
                        size="small"
                        onClick={() => setOpen({ remove: it.userName })}
                        aria-label={`Remove ${it.userName}`}
                      >
                        Remove
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
      {open && 'add' in open && <AddMember workspaceName={workspaceName} onClose={close} />}
      {open && 'remove' in open && (
        <RemoveMember workspaceName={workspaceName} userName={open.remove} onClose={close} />
      )}
    </>
  )
}

function AddMember({ workspaceName, onClose }: { workspaceName: string; onClose(): void }) {
  const [userName, setUserName] = useState('')
  const [role, setRole] = useState<Role>('editor')
  const client = useQueryClient()
  return (
    <FormDialog
      title={`Add a member to ${workspaceName}`}
      action="Add member"
      canSubmit={userName.trim() !== ''}
      onClose={onClose}
      onSubmit={async () => {
        await setMember({ workspaceName, userName: userName.trim(), role })
        await client.invalidateQueries(members(workspaceName))
      }}
    >
      <TextField
        label="User name"
        hint="Somebody of your organization. Admins add users to it."
        autoFocus
        value={userName}
        onChange={(event) => setUserName(event.target.value)}
      />
      <Choice label="Role" value={role} onChange={(it) => setRole(it as Role)}>
        <option value="viewer">Viewer: reads</option>
        <option value="editor">Editor: logs and changes, too</option>
        <option value="owner">Owner: manages the workspace, too</option>
      </Choice>
    </FormDialog>
  )
}

type Removed = { workspaceName: string; userName: string; onClose(): void }

function RemoveMember({ workspaceName, userName, onClose }: Removed) {
  const client = useQueryClient()
  return (
    <FormDialog
      title={`Remove ${userName}?`}
      action="Remove member"
      danger
      onClose={onClose}
      onSubmit={async () => {
        await removeMember({ workspaceName, userName })
        await client.invalidateQueries()
      }}
    >
      <p>
        {userName} will no longer see what is in {workspaceName}, except public projects. What {userName} made stays.
      </p>
    </FormDialog>
  )
}
