import { useQuery, useQueryClient } from '@tanstack/react-query'
import { getRouteApi, Link } from '@tanstack/react-router'
import { useState } from 'react'
import { type Dashboard, dashboards, deleteDashboard, saveDashboard, setDefaultDashboard } from '../api/dashboards.ts'
import { project as projectQuery } from '../api/projects.ts'
import { knownColumns } from '../api/runs.ts'
import { Button, IconButton } from '../kit/button.tsx'
import { FormDialog } from '../kit/dialog.tsx'
import { Checkbox, TextField } from '../kit/field.tsx'
import { CopyIcon, DotsIcon, PencilIcon, PinIcon, PlusIcon, TrashIcon } from '../kit/icons.tsx'
import { Menu, MenuItem, MenuLine } from '../kit/menu.tsx'
import { EmptyPlace, ErrorPlace, LoadingPlace } from '../kit/places.tsx'
import { toAgo, toCountOf, toTime } from '../kit/text.ts'
import { toast, toastError } from '../kit/toast.tsx'
import { useMayWrite } from '../kit/use-may-write.ts'
import styles from './dashboards.module.css'
import { toFirstPanels } from './panel-kinds.ts'

const route = getRouteApi('/$workspace/$project/-/dashboards')

/** The dashboards of a project, the default one first. */
export function DashboardsPage() {
  const { workspace, project: name } = route.useParams()
  const project = useQuery(projectQuery(workspace, name))
  const projectId = project.data?.projectId
  const list = useQuery({
    ...dashboards(projectId ?? ''),
    enabled: projectId !== undefined,
    refetchInterval: 10_000,
  })
  const [isMaking, setMaking] = useState(false)
  const error = project.error ?? list.error
  const mayEdit = useMayWrite(workspace)
  if (error && !list.data) {
    return <ErrorPlace error={error} onRetry={() => void Promise.all([project.refetch(), list.refetch()])} />
  }
  if (!projectId || !list.data) return <LoadingPlace />
  const add = mayEdit && (
    <Button look="primary" onClick={() => setMaking(true)}>
      <PlusIcon size={14} /> New dashboard
    </Button>
  )
  return (
    <div className={styles.list}>
      <title>{`Dashboards · ${name} · svc`}</title>
      <header className={styles.header}>
        <h1>Dashboards</h1>
        <span className={styles.gap} />
        {list.data.length > 0 && add}
      </header>
      {list.data.length === 0 ? (
        <EmptyPlace title="No dashboard" action={add || undefined}>
          A dashboard has charts, tables of runs, media, models in production, artifacts and text side by side, for
          everybody who can see the project; a share link of the project shows what is of the project to others.
        </EmptyPlace>
      ) : (
        <div className={styles.frame}>
          <table className={styles.table}>
            <thead>
              <tr>
                <th scope="col">Dashboard</th>
                <th scope="col">Panels</th>
                <th scope="col">Last change</th>
                <th scope="col">Made by</th>
                <th scope="col" className={styles.end}>
                  <span className="visually-hidden">Actions</span>
                </th>
              </tr>
            </thead>
            <tbody>
              {list.data
                .toSorted((a, b) => Number(b.isDefault) - Number(a.isDefault))
                .map((it) => (
                  <Row key={it.id} dashboard={it} projectId={projectId} mayEdit={mayEdit} />
                ))}
            </tbody>
          </table>
        </div>
      )}
      {isMaking && <NewDashboard projectId={projectId} onClose={() => setMaking(false)} />}
    </div>
  )
}

function Row({ dashboard, projectId, mayEdit }: { dashboard: Dashboard; projectId: string; mayEdit: boolean }) {
  const { workspace, project } = route.useParams()
  const { id, name, panels, isDefault, lastUpdate, createdBy } = dashboard
  const [open, setOpen] = useState<'rename' | 'delete'>()
  const client = useQueryClient()
  const refresh = () => client.invalidateQueries({ queryKey: ['dashboards', projectId] })
  const act = (work: () => Promise<unknown>, done: string) =>
    work()
      .then(refresh)
      .then(() => toast(done))
      .catch(toastError)
  return (
    <tr>
      <td>
        <div className={styles.name}>
          <Link to="/$workspace/$project/-/dashboards/$dashboard" params={{ workspace, project, dashboard: id }}>
            {name}
          </Link>
          {isDefault && <span className={styles.badge}>default</span>}
        </div>
      </td>
      <td className={styles.soft}>{toCountOf(panels.length, 'panel')}</td>
      <td className={styles.soft} title={toTime(lastUpdate)}>
        {toAgo(lastUpdate)}
      </td>
      <td className={styles.soft}>{createdBy}</td>
      <td className={styles.end}>
        {mayEdit && (
          <Menu
            align="end"
            trigger={
              <IconButton label={`Actions for ${name}`} size="small">
                <DotsIcon />
              </IconButton>
            }
          >
            <MenuItem icon={<PencilIcon />} onSelect={() => setOpen('rename')}>
              Rename
            </MenuItem>
            <MenuItem
              icon={<CopyIcon />}
              onSelect={() => act(() => saveDashboard(projectId, { name: `${name} (copy)`, panels }), `Copied ${name}`)}
            >
              Copy
            </MenuItem>
            {!isDefault && (
              <MenuItem
                icon={<PinIcon />}
                onSelect={() => act(() => setDefaultDashboard(projectId, id), `${name} is the default`)}
              >
                Make default
              </MenuItem>
            )}
            <MenuLine />
            <MenuItem icon={<TrashIcon />} danger onSelect={() => setOpen('delete')}>
              Delete
            </MenuItem>
          </Menu>
        )}
        {open === 'rename' && (
          <RenameDashboard
            dashboard={dashboard}
            onRename={async (name) => {
              await saveDashboard(projectId, { ...dashboard, name })
              await refresh()
            }}
            onClose={() => setOpen(undefined)}
          />
        )}
        {open === 'delete' && (
          <FormDialog
            title={`Delete the dashboard ${name}?`}
            action={`Delete ${name}`}
            danger
            onClose={() => setOpen(undefined)}
            onSubmit={async () => {
              await deleteDashboard(projectId, id)
              await refresh()
            }}
          >
            <p>Its {toCountOf(panels.length, 'panel')} go with it, for everybody. The runs stay as they are.</p>
          </FormDialog>
        )}
      </td>
    </tr>
  )
}

type Rename = { dashboard: Dashboard; onRename(name: string): Promise<unknown>; onClose(): void }

function RenameDashboard({ dashboard, onRename, onClose }: Rename) {
  const [name, setName] = useState(dashboard.name)
  return (
    <FormDialog
      title={`Rename ${dashboard.name}`}
      action="Rename"
      canSubmit={name.trim() !== ''}
      onClose={onClose}
      onSubmit={() => onRename(name.trim())}
    >
      <TextField label="Name" maxLength={200} value={name} onChange={(event) => setName(event.target.value)} />
    </FormDialog>
  )
}

function NewDashboard({ projectId, onClose }: { projectId: string; onClose(): void }) {
  const { workspace, project } = route.useParams()
  const [name, setName] = useState('')
  const [isFilled, setFilled] = useState(true)
  const client = useQueryClient()
  const navigate = route.useNavigate()
  return (
    <FormDialog
      title="New dashboard"
      action="Make dashboard"
      canSubmit={name.trim() !== ''}
      onClose={onClose}
      onSubmit={async () => {
        const panels = isFilled ? toFirstPanels(await client.fetchQuery(knownColumns(workspace, project))) : []
        const { id } = await saveDashboard(projectId, { name: name.trim(), panels })
        await client.invalidateQueries({ queryKey: ['dashboards', projectId] })
        await navigate({
          to: '/$workspace/$project/-/dashboards/$dashboard',
          params: { workspace, project, dashboard: id },
          search: { edit: true },
        })
      }}
    >
      <TextField label="Name" maxLength={200} value={name} onChange={(event) => setName(event.target.value)} />
      <Checkbox checked={isFilled} onChange={(event) => setFilled(event.target.checked)}>
        Begin with charts of the metrics and a table of the runs
      </Checkbox>
    </FormDialog>
  )
}
