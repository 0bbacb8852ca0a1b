import { useQuery, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { deleteView, saveView, views } from '../api/views.ts'
import { Button } from '../kit/button.tsx'
import { FormDialog } from '../kit/dialog.tsx'
import { TextField } from '../kit/field.tsx'
import { DownIcon, PlusIcon, TrashIcon } from '../kit/icons.tsx'
import { Menu, MenuItem, MenuLabel, MenuLine } from '../kit/menu.tsx'
import { toast, toastError } from '../kit/toast.tsx'
import { useMayWrite } from '../kit/use-may-write.ts'
import type { RunsSearch } from './runs-search.ts'

type Props = {
  projectId: string
  /** What the URL says, and what it says together with the view. */
  workspace: string
  search: RunsSearch
  effective: RunsSearch
  onChange(search: RunsSearch): void
}

/** Named states of the page, kept by the service: a link with `?view=` shows them to everybody who may read the project. */
export function ViewsMenu({ workspace, projectId, search, effective, onChange }: Props) {
  const all = useQuery(views(projectId)).data ?? []
  const client = useQueryClient()
  const mayWrite = useMayWrite(workspace)
  const [isNaming, setNaming] = useState(false)
  const current = all.find((it) => it.id === search.view)
  const isChanged = Object.entries(search).some(([name, value]) => !notKept.has(name) && value !== undefined)

  const refresh = () => client.invalidateQueries(views(projectId))

  async function save(name: string, id?: string) {
    const saved = await saveView(projectId, { id, name, search: toStored(effective) })
    await refresh()
    onChange({ view: saved })
    toast(`Saved the view ${name}`)
  }
  async function remove(id: string) {
    await deleteView(projectId, id)
    onChange({})
    await refresh()
  }
  return (
    <>
      <Menu
        align="end"
        trigger={
          <Button look="quiet">
            {current ? `${current.name}${isChanged ? ' *' : ''}` : 'Views'} <DownIcon size={14} />
          </Button>
        }
      >
        <MenuItem onSelect={() => onChange({})}>Default view</MenuItem>
        {all.length > 0 && (
          <>
            <MenuLine />
            <MenuLabel>Views of this project</MenuLabel>
          </>
        )}
        {all.map((it) => (
          <MenuItem key={it.id} onSelect={() => onChange({ view: it.id })}>
            {it.name}
          </MenuItem>
        ))}
        {mayWrite && (
          <>
            <MenuLine />
            {current && isChanged && (
              <MenuItem onSelect={() => save(current.name, current.id).catch(toastError)}>
                Save the changes to {current.name}
              </MenuItem>
            )}
            <MenuItem icon={<PlusIcon />} onSelect={() => setNaming(true)}>
              Save as a new view
            </MenuItem>
            {current && (
              <MenuItem icon={<TrashIcon />} danger onSelect={() => remove(current.id).catch(toastError)}>
                Delete {current.name}
              </MenuItem>
            )}
          </>
        )}
      </Menu>
      {isNaming && <NameView taken={all.map((it) => it.name)} onClose={() => setNaming(false)} onName={save} />}
    </>
  )
}

/** Not part of a view: its own id, and what lets the reader in. */
const notKept = new Set(['view', 'shareCode'])

const toStored = (state: RunsSearch) => Object.fromEntries(Object.entries(state).filter(([name]) => !notKept.has(name)))

function NameView({
  taken,
  onName,
  onClose,
}: {
  taken: string[]
  onName(name: string): Promise<void>
  onClose(): void
}) {
  const [name, setName] = useState('')
  const isTaken = taken.includes(name.trim())
  return (
    <FormDialog
      title="Save as a new view"
      action="Save view"
      canSubmit={name.trim() !== '' && !isTaken}
      onClose={onClose}
      onSubmit={() => onName(name.trim())}
    >
      <TextField
        label="Name"
        hint={
          isTaken ? 'There is a view of this name.' : 'Columns, order, filters, groups and charts, as you see them now.'
        }
        autoFocus
        maxLength={100}
        value={name}
        onChange={(event) => setName(event.target.value)}
      />
    </FormDialog>
  )
}
