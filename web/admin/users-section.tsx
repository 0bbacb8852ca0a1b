import { useQuery, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { createUser, createUserKey, deleteUser, type Session, setAdmin, type User, users } from '../api/accounts.ts'
import { Button, IconButton } from '../kit/button.tsx'
import { FormDialog } from '../kit/dialog.tsx'
import { Checkbox, TextField } from '../kit/field.tsx'
import { DotsIcon, PlusIcon } from '../kit/icons.tsx'
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
  const client = useQueryClient()
  const [made, setMade] = useState<Made>()
  const [open, setOpen] = useState<{ add: true } | { remove: string }>()
  const close = () => setOpen(undefined)
  if (error) return <ErrorPlace error={error} onRetry={refetch} />
  if (!data) return <LoadingPlace />
  const text = search.search ?? ''
  const has = (it: string | null) => it?.toLowerCase().includes(text.toLowerCase()) ?? false
  const people = data.filter((it) => it.kind === 'user' && (has(it.userName) || has(it.defaultWorkspaceName)))
  const act = (work: Promise<unknown>) => work.then(() => client.invalidateQueries(users)).catch(toastError)
  const makeKey = async (userName: string) => setMade({ userName, ...(await createUserKey(userName)) })
  return (
    <>
      <div className={styles.tools}>
        <Button look="primary" onClick={() => setOpen({ add: true })}>
          <PlusIcon size={14} /> New user
        </Button>
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
                </td>
                <td className={styles.soft}>{it.isAdmin ? 'admin' : 'user'}</td>
                <td className={styles.soft}>{it.defaultWorkspaceName}</td>
                <td className={styles.soft}>{it.lastActivityAt ? toAgo(it.lastActivityAt) : 'never'}</td>
                <td className={styles.end}>
                  <Menu
                    align="end"
                    trigger={
                      <IconButton label={`Actions for ${it.userName}`} size="small">
                        <DotsIcon />
                      </IconButton>
                    }
                  >
                    <MenuItem onSelect={() => makeKey(it.userName).catch(toastError)}>New key</MenuItem>
                    <MenuItem onSelect={() => act(setAdmin(it.userName, !it.isAdmin))}>
                      {it.isAdmin ? 'Make a user' : 'Make an admin'}
                    </MenuItem>
                    <MenuLine />
                    <MenuItem danger onSelect={() => setOpen({ remove: it.userName })}>
                      Delete
                    </MenuItem>
                  </Menu>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {open && 'add' in open && <AddUser onClose={close} onMade={setMade} />}
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
  const [isAdmin, setIsAdmin] = useState(false)
  const client = useQueryClient()
  return (
    <FormDialog
      title="New user"
      action="Add user"
      canSubmit={name.trim() !== ''}
      onClose={onClose}
      onSubmit={async () => {
        const userName = name.trim()
        await createUser({ userName, isAdmin })
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
      <Checkbox checked={isAdmin} onChange={(event) => setIsAdmin(event.target.checked)}>
        As an admin of the organization
      </Checkbox>
    </FormDialog>
  )
}
