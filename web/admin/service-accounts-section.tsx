import { useQuery, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import {
  createServiceAccount,
  createServiceKey,
  deleteServiceAccount,
  type Role,
  type Session,
  users,
} from '../api/accounts.ts'
import { workspaces } from '../api/admin.ts'
import { Button, IconButton } from '../kit/button.tsx'
import { FormDialog } from '../kit/dialog.tsx'
import { Checkbox, TextField } from '../kit/field.tsx'
import { DotsIcon, PlusIcon } from '../kit/icons.tsx'
import { Choice, MakeKey } from '../kit/keys/make-key.tsx'
import { Menu, MenuItem, MenuLine } from '../kit/menu.tsx'
import { NewKey } from '../kit/new-key.tsx'
import { EmptyPlace, ErrorPlace, LoadingPlace } from '../kit/places.tsx'
import { toAgo } from '../kit/text.ts'
import styles from './admin.module.css'

type Made = { userName: string; apiKey: string }

/** Accounts of programs, for admins. */
export function ServiceAccounts({ reader }: { reader: Session }) {
  const { data, error, refetch } = useQuery(users)
  const { data: everyWorkspace } = useQuery(workspaces)
  const client = useQueryClient()
  const [made, setMade] = useState<Made>()
  const [open, setOpen] = useState<{ add: true } | { remove: string } | { key: string }>()
  const close = () => setOpen(undefined)
  if (error) return <ErrorPlace error={error} onRetry={refetch} />
  if (!data) return <LoadingPlace />
  const accounts = data.filter((it) => it.kind === 'service account')
  const add = reader.isAdmin && (
    <Button look="primary" onClick={() => setOpen({ add: true })}>
      <PlusIcon size={14} /> New service account
    </Button>
  )
  return (
    <>
      {made && <NewKey apiKey={made.apiKey} owner={made.userName} />}
      {accounts.length === 0 ? (
        <EmptyPlace title="No service account yet" action={add}>
          Shared machines and pipelines get a service account, so that their key is nobody’s own. It may be restricted
          to one workspace.
        </EmptyPlace>
      ) : (
        <>
          <div className={styles.tools}>{add}</div>
          <div className={styles.frame}>
            <table className={styles.table} aria-label="Service accounts">
              <thead>
                <tr>
                  <th scope="col">Name</th>
                  <th scope="col">May use</th>
                  <th scope="col">Role</th>
                  <th scope="col">Last seen</th>
                  <th scope="col" className={styles.end}>
                    <span className="visually-hidden">Actions</span>
                  </th>
                </tr>
              </thead>
              <tbody>
                {accounts.map((it) => (
                  <tr key={it.userName}>
                    <td title={it.userName}>{it.userName}</td>
                    <td className={styles.soft}>{it.authorizedWorkspaces?.join(', ') ?? 'every workspace'}</td>
                    <td className={styles.soft}>{it.workspaceRole ?? 'in each workspace'}</td>
                    <td className={styles.soft}>{it.lastActivityAt ? toAgo(it.lastActivityAt) : 'never'}</td>
                    <td className={styles.end}>
                      {reader.isAdmin && (
                        <Menu
                          align="end"
                          trigger={
                            <IconButton label={`Actions for ${it.userName}`} size="small">
                              <DotsIcon />
                            </IconButton>
                          }
                        >
                          <MenuItem onSelect={() => setOpen({ key: it.userName })}>New key</MenuItem>
                          <MenuLine />
                          <MenuItem danger onSelect={() => setOpen({ remove: it.userName })}>
                            Delete
                          </MenuItem>
                        </Menu>
                      )}
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        </>
      )}
      {open && 'add' in open && <AddAccount reader={reader} onClose={close} onMade={setMade} />}
      {open && 'key' in open && (
        <MakeKey
          title={`New key of ${open.key}`}
          workspaceNames={everyWorkspace?.map((it) => it.workspaceName) ?? []}
          onClose={close}
          make={async (fields) => setMade({ userName: open.key, ...(await createServiceKey(open.key, fields)) })}
        />
      )}
      {open && 'remove' in open && (
        <FormDialog
          title={`Delete ${open.remove}?`}
          action="Delete service account"
          danger
          onClose={close}
          onSubmit={async () => {
            await deleteServiceAccount(open.remove)
            await client.invalidateQueries(users)
          }}
        >
          <p>All its keys end within a second. What it made stays.</p>
        </FormDialog>
      )}
    </>
  )
}

function AddAccount({ reader, onClose, onMade }: { reader: Session; onClose(): void; onMade(made: Made): void }) {
  const [name, setName] = useState('')
  const [teamName, setTeamName] = useState(reader.defaultWorkspaceName ?? reader.workspaceNames[0] ?? '')
  const [isRestricted, setRestricted] = useState(true)
  const [role, setRole] = useState<Role>('editor')
  const client = useQueryClient()
  return (
    <FormDialog
      title="New service account"
      action="Add service account"
      canSubmit={name.trim() !== '' && teamName !== ''}
      onClose={onClose}
      onSubmit={async () => {
        const { apiKey } = await createServiceAccount({
          name: name.trim(),
          teamName,
          organizationName: reader.organizationName,
          role,
          ...(isRestricted && { authorizedWorkspaces: [teamName] }),
        })
        onMade({ userName: name.trim(), apiKey })
        await client.invalidateQueries(users)
      }}
    >
      <TextField
        label="Name"
        autoFocus
        maxLength={100}
        value={name}
        onChange={(event) => setName(event.target.value)}
      />
      <Choice label="Workspace" value={teamName} onChange={setTeamName}>
        {reader.workspaceNames.map((it) => (
          <option key={it}>{it}</option>
        ))}
      </Choice>
      <Checkbox checked={isRestricted} onChange={(event) => setRestricted(event.target.checked)}>
        Restrict it to this workspace
      </Checkbox>
      <Choice label="Role" value={role} onChange={(it) => setRole(it as Role)}>
        <option value="viewer">Viewer: reads</option>
        <option value="editor">Editor: logs and changes, too</option>
        <option value="owner">Owner: manages the workspace, too</option>
      </Choice>
    </FormDialog>
  )
}
