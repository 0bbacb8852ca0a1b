import { useQuery, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import {
  createUser,
  createUserKey,
  deleteUser,
  type OrganizationRole,
  type Session,
  setOrganizationRole,
  type User,
  users,
} from '../api/accounts.ts'
import { workspaces } from '../api/admin.ts'
import { Button, IconButton } from '../kit/button.tsx'
import { FormDialog } from '../kit/dialog.tsx'
import { TextField } from '../kit/field.tsx'
import { DotsIcon, PlusIcon } from '../kit/icons.tsx'
import { Choice, MakeKey } from '../kit/keys/make-key.tsx'
import { Menu, MenuItem, MenuLine } from '../kit/menu.tsx'
import { NewKey } from '../kit/new-key.tsx'
import { ErrorPlace, LoadingPlace } from '../kit/places.tsx'
import { SearchField } from '../kit/search-field.tsx'
import { toAgo, toCountOf } from '../kit/text.ts'
import { toastError } from '../kit/toast.tsx'
import styles from './admin.module.css'
import { useAdminSearch } from './use-admin-search.ts'

type Made = { userName: string; apiKey: string }

/** The people of the organization, for admins. */
export function Users({ reader }: { reader: Session }) {
  const { search, change } = useAdminSearch()
  const { data, error, refetch } = useQuery(users)
  const { data: everyWorkspace } = useQuery(workspaces)
  const client = useQueryClient()
  const [made, setMade] = useState<Made>()
  const [open, setOpen] = useState<{ add: true } | { remove: string } | { key: string }>()
  const close = () => setOpen(undefined)
  if (error) return <ErrorPlace error={error} onRetry={refetch} />
  if (!data) return <LoadingPlace />
  const text = search.search ?? ''
  const has = (it: string | null) => it?.toLowerCase().includes(text.toLowerCase()) ?? false
  const people = data.filter((it) => it.kind === 'user' && (has(it.userName) || has(it.defaultWorkspaceName)))
  const act = (work: Promise<unknown>) => work.then(() => client.invalidateQueries(users)).catch(toastError)
  return (
    <>
      <div className={styles.tools}>
        {reader.isAdmin && (
          <Button look="primary" onClick={() => setOpen({ add: true })}>
            <PlusIcon size={14} /> New user
          </Button>
        )}
        <SearchField
          label="Search users"
          placeholder="Name or workspace"
          className={styles.search}
          text={text}
          onChange={(it) => change({ search: it || undefined })}
        />
        <span className={styles.faint}>{toCountOf(people.length, 'user')}</span>
      </div>
      {made && <NewKey apiKey={made.apiKey} owner={made.userName} />}
      <div className={styles.frame}>
        <table className={styles.table} aria-label="Users">
          <thead>
            <tr>
              <th scope="col">Name</th>
              <th scope="col">Role</th>
              <th scope="col">Workspace</th>
              <th scope="col">Last seen</th>
              <th scope="col" className={styles.end}>
                <span className="visually-hidden">Actions</span>
              </th>
            </tr>
          </thead>
          <tbody>
            {people.map((it: User) => (
              <tr key={it.userName}>
                <td title={it.userName}>
                  {it.userName}
                  {it.userName === reader.userName && <span className={styles.badge}>you</span>}
                  {it.isSuspended && (
                    <span
                      className={styles.badge}
                      title={`${it.provider} does not confirm this user any more. Keys work again with the next sign-in.`}
                    >
                      suspended
                    </span>
                  )}
                </td>
                <td className={styles.soft}>{it.role === 'member' ? 'user' : it.role}</td>
                <td className={styles.soft}>{it.defaultWorkspaceName}</td>
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
                      {(['member', 'auditor', 'admin'] as const)
                        .filter((role) => role !== it.role)
                        .map((role) => (
                          <MenuItem key={role} onSelect={() => act(setOrganizationRole(it.userName, role))}>
                            {{ member: 'Make a user', auditor: 'Make an auditor', admin: 'Make an admin' }[role]}
                          </MenuItem>
                        ))}
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
      {open && 'add' in open && <AddUser onClose={close} onMade={setMade} />}
      {open && 'key' in open && (
        <MakeKey
          title={`New key of ${open.key}`}
          workspaceNames={everyWorkspace?.map((it) => it.workspaceName) ?? []}
          onClose={close}
          make={async (fields) => setMade({ userName: open.key, ...(await createUserKey(open.key, fields)) })}
        />
      )}
      {open && 'remove' in open && (
        <FormDialog
          title={`Delete ${open.remove}?`}
          action="Delete user"
          danger
          onClose={close}
          onSubmit={async () => {
            await deleteUser(open.remove)
            await client.invalidateQueries(users)
          }}
        >
          <p>
            All keys and sessions of {open.remove} end. What {open.remove} made stays; workspaces without another owner
            become yours.
          </p>
        </FormDialog>
      )}
    </>
  )
}

function AddUser({ onClose, onMade }: { onClose(): void; onMade(made: Made): void }) {
  const [name, setName] = useState('')
  const [role, setRole] = useState<OrganizationRole>('member')
  const client = useQueryClient()
  return (
    <FormDialog
      title="New user"
      action="Add user"
      canSubmit={name.trim() !== ''}
      onClose={onClose}
      onSubmit={async () => {
        const userName = name.trim()
        await createUser({ userName, role })
        await client.invalidateQueries(users)
        onMade({ userName, ...(await createUserKey(userName)) })
      }}
    >
      <TextField
        label="Name"
        hint="The user gets a workspace of this name, and a first key to sign in with."
        autoFocus
        maxLength={100}
        value={name}
        onChange={(event) => setName(event.target.value)}
      />
      <Choice label="Role in the organization" value={role} onChange={(it) => setRole(it as OrganizationRole)}>
        <option value="member">User</option>
        <option value="auditor">Auditor: reads everything</option>
        <option value="admin">Admin: manages everything</option>
      </Choice>
    </FormDialog>
  )
}
