import { useQuery, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { addTags, type Condition, changeCondition, moveExperiments, removeTags } from '../api/experiments.ts'
import { projects, workspaces } from '../api/projects.ts'
import { Button, IconButton } from '../kit/button.tsx'
import { FormDialog } from '../kit/dialog.tsx'
import { Select, TextField } from '../kit/field.tsx'
import { ArchiveIcon, CloseIcon, MoveIcon, RestoreIcon, TagIcon, TrashIcon } from '../kit/icons.tsx'
import { PageLink, toPagePath } from '../kit/page-link.tsx'
import { toCountOf } from '../kit/text.ts'
import { toast, toastError } from '../kit/toast.tsx'
import { useMayWrite } from '../kit/use-may-write.ts'
import styles from './bulk-bar.module.css'
import { runsMax as comparedMax } from './compare/compare-search.ts'

type Props = { keys: string[]; workspace: string; project: string; isArchived: boolean; onClear(): void }

/** What can be done to all selected runs at once. */
export function BulkBar({ keys, workspace, project, isArchived, onClear }: Props) {
  const client = useQueryClient()
  const [open, setOpen] = useState<'tag' | 'move'>()
  const [isBusy, setBusy] = useState(false)
  const refresh = () =>
    Promise.all([
      client.invalidateQueries({ queryKey: ['runs', workspace, project] }),
      client.invalidateQueries({ queryKey: ['projects'] }),
    ])

  async function change(condition: Condition, done: string, canUndo: boolean) {
    setBusy(true)
    try {
      await changeCondition(keys, condition)
      onClear()
      const undo = () => changeCondition(keys, 'restore').then(refresh, toastError)
      toast(`${done} ${toCountOf(keys.length, 'run')}`, canUndo ? { action: { label: 'Undo', run: undo } } : {})
    } catch (error) {
      toastError(error)
    } finally {
      setBusy(false)
      await refresh()
    }
  }
  const mayWrite = useMayWrite(workspace)
  return (
    <div className={styles.bar} role="toolbar" aria-label="Actions on the selected runs">
      <strong>{toCountOf(keys.length, 'run')} selected</strong>
      {keys.length > 1 && (
        <PageLink path={`${toPagePath(workspace, project)}/-/compare?keys=${keys.slice(0, comparedMax).join(',')}`}>
          Compare
        </PageLink>
      )}
      {mayWrite && (
        <>
          <Button size="small" disabled={isBusy} onClick={() => setOpen('tag')}>
            <TagIcon size={14} /> Tag
          </Button>
          <Button size="small" disabled={isBusy} onClick={() => setOpen('move')}>
            <MoveIcon size={14} /> Move
          </Button>
          {isArchived ? (
            <Button size="small" disabled={isBusy} onClick={() => change('restore', 'Restored', false)}>
              <RestoreIcon size={14} /> Restore
            </Button>
          ) : (
            <Button size="small" disabled={isBusy} onClick={() => change('archive', 'Archived', true)}>
              <ArchiveIcon size={14} /> Archive
            </Button>
          )}
          <Button size="small" disabled={isBusy} onClick={() => change('delete', 'Deleted', true)}>
            <TrashIcon size={14} /> Delete
          </Button>
        </>
      )}
      <IconButton label="Clear the selection" size="small" onClick={onClear}>
        <CloseIcon size={14} />
      </IconButton>
      {open === 'tag' && <TagRuns keys={keys} onDone={refresh} onClose={() => setOpen(undefined)} />}
      {open === 'move' && (
        <MoveRuns
          keys={keys}
          workspace={workspace}
          project={project}
          onDone={async () => {
            onClear()
            await refresh()
          }}
          onClose={() => setOpen(undefined)}
        />
      )}
    </div>
  )
}

type DialogProps = { keys: string[]; onDone(): Promise<unknown>; onClose(): void }

function TagRuns({ keys, onDone, onClose }: DialogProps) {
  const [added, setAdded] = useState('')
  const [removed, setRemoved] = useState('')
  const toAdd = toTags(added)
  const toRemove = toTags(removed)
  return (
    <FormDialog
      title={`Tag ${toCountOf(keys.length, 'run')}`}
      action="Save tags"
      canSubmit={toAdd.length + toRemove.length > 0}
      onClose={onClose}
      onSubmit={async () => {
        if (toAdd.length > 0) await addTags(keys, toAdd)
        if (toRemove.length > 0) await removeTags(keys, toRemove)
        await onDone()
      }}
    >
      <TextField
        label="Add"
        hint="Separated by commas."
        value={added}
        onChange={(event) => setAdded(event.target.value)}
      />
      <TextField label="Remove" value={removed} onChange={(event) => setRemoved(event.target.value)} />
    </FormDialog>
  )
}

const toTags = (text: string) =>
  text
    .split(',')
    .map((it) => it.trim())
    .filter((it) => it !== '')

function MoveRuns({ keys, workspace, project, onDone, onClose }: DialogProps & { workspace: string; project: string }) {
  const names = useQuery(workspaces).data ?? [workspace]
  const [target, setTarget] = useState(workspace)
  const list = useQuery(projects(target)).data ?? []
  const possible = list
    .filter((it) => !it.archived)
    .map((it) => it.projectName)
    .filter((it) => target !== workspace || it !== project)
  const [chosen, setChosen] = useState('')
  const name = possible.includes(chosen) ? chosen : (possible[0] ?? '')
  return (
    <FormDialog
      title={`Move ${toCountOf(keys.length, 'run')}`}
      action="Move"
      canSubmit={name !== ''}
      onClose={onClose}
      onSubmit={() => moveExperiments(keys, target, name).then(onDone)}
    >
      <Select aria-label="Workspace" value={target} onChange={(event) => setTarget(event.target.value)}>
        {names.map((it) => (
          <option key={it}>{it}</option>
        ))}
      </Select>
      <Select aria-label="Project" value={name} onChange={(event) => setChosen(event.target.value)}>
        {possible.map((it) => (
          <option key={it}>{it}</option>
        ))}
      </Select>
      {possible.length === 0 && <p>This workspace has no other project: make one first.</p>}
    </FormDialog>
  )
}
