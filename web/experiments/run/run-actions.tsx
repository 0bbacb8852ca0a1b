import { useQueryClient } from '@tanstack/react-query'
import { useNavigate, useRouter } from '@tanstack/react-router'
import { type ComponentType, useState } from 'react'
import { type Condition, changeCondition } from '../../api/experiments.ts'
import { shareCode } from '../../api/http.ts'
import { type Metadata, metadata, saveOther } from '../../api/run.ts'
import { Button, IconButton } from '../../kit/button.tsx'
import { FormDialog } from '../../kit/dialog.tsx'
import { TextField } from '../../kit/field.tsx'
import {
  ArchiveIcon,
  BellIcon,
  BoxIcon,
  CopyIcon,
  CrossIcon,
  DotsIcon,
  DownloadIcon,
  PencilIcon,
  RestoreIcon,
  TrashIcon,
} from '../../kit/icons.tsx'
import { Menu, MenuItem, MenuLine } from '../../kit/menu.tsx'
import { toast, toastError } from '../../kit/toast.tsx'
import { useMayWrite } from '../../kit/use-may-write.ts'
import { ExportRun } from '../export-runs.tsx'

/** The dialog that registers a model of the run; it belongs to another room. */
export type RegisterProps = { run: Metadata; onClose(): void }

type Props = { run: Metadata; Register: ComponentType<RegisterProps> }

/** What can be done to a run: all of it can be undone, but for a stop, which asks first. */
export function RunActions({ run, Register }: Props) {
  const [open, setOpen] = useState<'rename' | 'stop' | 'register' | 'delete' | 'export'>()
  const client = useQueryClient()
  const router = useRouter()
  const navigate = useNavigate()
  const { experimentKey: key, experimentName, workspaceName, projectName } = run
  const mayWrite = useMayWrite(workspaceName)
  const refresh = () =>
    Promise.all([
      client.invalidateQueries({ queryKey: ['run', key] }),
      client.invalidateQueries({ queryKey: ['runs', workspaceName, projectName] }),
      client.invalidateQueries({ queryKey: ['runs-of', workspaceName, projectName] }),
    ])
  async function change(condition: Condition) {
    await changeCondition([key], condition)
    await refresh()
  }
  const undo = () => change('restore').catch(toastError)
  async function archive() {
    await change('archive')
    toast(`Archived ${experimentName}`, { action: { label: 'Undo', run: undo } })
  }
  return (
    <>
      {run.running && mayWrite && (
        <Button onClick={() => setOpen('stop')}>
          <CrossIcon size={14} /> Stop
        </Button>
      )}
      <Menu
        align="end"
        trigger={
          <IconButton label="Actions">
            <DotsIcon />
          </IconButton>
        }
      >
        {mayWrite && (
          <MenuItem icon={<PencilIcon />} onSelect={() => setOpen('rename')}>
            Rename
          </MenuItem>
        )}
        <MenuItem
          icon={<CopyIcon />}
          onSelect={() => navigator.clipboard.writeText(key).then(() => toast('Copied the key'), toastError)}
        >
          Copy the key
        </MenuItem>
        {shareCode() === undefined && (
          <MenuItem
            icon={<BellIcon />}
            onSelect={() =>
              void navigate({
                to: '/$workspace/$project/-/alerts',
                params: { workspace: workspaceName, project: projectName },
                search: { run: key },
              })
            }
          >
            Alerts
          </MenuItem>
        )}
        {mayWrite && (
          <MenuItem icon={<BoxIcon />} onSelect={() => setOpen('register')}>
            Register a model
          </MenuItem>
        )}
        {shareCode() === undefined && (
          <MenuItem icon={<DownloadIcon />} onSelect={() => setOpen('export')}>
            Export …
          </MenuItem>
        )}
        {mayWrite && (
          <>
            <MenuLine />
            {run.archived ? (
              <MenuItem icon={<RestoreIcon />} onSelect={undo}>
                Restore
              </MenuItem>
            ) : (
              <MenuItem icon={<ArchiveIcon />} onSelect={() => archive().catch(toastError)}>
                Archive
              </MenuItem>
            )}
            <MenuItem danger icon={<TrashIcon />} onSelect={() => setOpen('delete')}>
              Delete
            </MenuItem>
          </>
        )}
      </Menu>
      {open === 'rename' && <Rename run={run} onDone={refresh} onClose={() => setOpen(undefined)} />}
      {open === 'export' && <ExportRun experimentKey={key} name={experimentName} onClose={() => setOpen(undefined)} />}
      {open === 'register' && <Register run={run} onClose={() => setOpen(undefined)} />}
      {open === 'stop' && (
        <FormDialog
          title={`Stop ${experimentName}?`}
          action="Stop the run"
          danger
          onClose={() => setOpen(undefined)}
          onSubmit={async () => {
            await change('stop')
            toast('The run is told to stop with its next sign of life')
          }}
        >
          <p>The training program is asked to end. It cannot be started again from here.</p>
        </FormDialog>
      )}
      {open === 'delete' && (
        <FormDialog
          title={`Delete ${experimentName}?`}
          action="Delete the run"
          danger
          onClose={() => setOpen(undefined)}
          onSubmit={async () => {
            await changeCondition([key], 'delete')
            const prefix = router.basepath.replace(/\/$/, '')
            router.history.push(`${prefix}/${encodeURIComponent(workspaceName)}/${encodeURIComponent(projectName)}`)
            void refresh().catch(() => undefined)
            toast(`Deleted ${experimentName}`, { action: { label: 'Undo', run: undo } })
          }}
        >
          <p>Its metrics, output and files go with it. For a while it can be restored.</p>
        </FormDialog>
      )}
    </>
  )
}

function Rename({ run, onDone, onClose }: { run: Metadata; onDone(): Promise<unknown>; onClose(): void }) {
  const [name, setName] = useState(run.experimentName)
  const client = useQueryClient()
  return (
    <FormDialog
      title="Rename the run"
      action="Rename"
      canSubmit={name.trim() !== ''}
      onClose={onClose}
      onSubmit={async () => {
        await saveOther(run.experimentKey, 'Name', name.trim())
        client.setQueryData(metadata(run.experimentKey).queryKey, (it) => it && { ...it, experimentName: name.trim() })
        await onDone()
      }}
    >
      <TextField
        label="Name"
        autoFocus
        maxLength={1000}
        value={name}
        onChange={(event) => setName(event.target.value)}
      />
    </FormDialog>
  )
}
