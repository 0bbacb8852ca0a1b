import { useQuery } from '@tanstack/react-query'
import { getRouteApi, Link } from '@tanstack/react-router'
import { useState } from 'react'
import { type Content, dashboards, type Panel } from '../api/dashboards.ts'
import { project as projectQuery } from '../api/projects.ts'
import { Button } from '../kit/button.tsx'
import { EmptyPlace, ErrorPlace, LoadingPlace } from '../kit/places.tsx'
import { toast, toastError } from '../kit/toast.tsx'
import { useMayWrite } from '../kit/use-may-write.ts'
import { AddPanel } from './add-panel.tsx'
import styles from './dashboards.module.css'
import { Grid } from './grid.tsx'
import { PanelDialog } from './panel-dialog.tsx'
import { type Kind, toPanel, toPath, toTitle } from './panel-kinds.ts'
import { PanelContent } from './panels.tsx'
import type { Slots } from './slots.ts'
import { useDashboard } from './use-dashboard.ts'

const route = getRouteApi('/$workspace/$project/-/dashboards/$dashboard')

/** One dashboard; the address `default` leads to the one that the project shows first. */
export function DashboardPage({ slots }: { slots: Slots }) {
  const { workspace, project: name, dashboard: given } = route.useParams()
  const project = useQuery(projectQuery(workspace, name))
  const projectId = project.data?.projectId
  const all = useQuery({ ...dashboards(projectId ?? ''), enabled: projectId !== undefined && given === 'default' })
  const id = given === 'default' ? all.data?.find((it) => it.isDefault)?.id : given
  const error = project.error ?? all.error
  if (error) return <ErrorPlace error={error} onRetry={() => void Promise.all([project.refetch(), all.refetch()])} />
  if (projectId === undefined || (given === 'default' && !all.data)) return <LoadingPlace />
  if (id === undefined) return <Missing title="No dashboard is the default" />
  return <Shown key={id} projectId={projectId} id={id} slots={slots} />
}

function Missing({ title }: { title: string }) {
  const { workspace, project } = route.useParams()
  const link = (
    <Link to="/$workspace/$project/-/dashboards" params={{ workspace, project }}>
      All dashboards
    </Link>
  )
  return <EmptyPlace title={title} action={link} />
}

function Shown({ projectId, id, slots }: { projectId: string; id: string; slots: Slots }) {
  const { workspace, project } = route.useParams()
  const { edit } = route.useSearch()
  const navigate = route.useNavigate()
  const { data, error, refetch, change } = useDashboard(projectId, id)
  /** The panel that is edited, or the kind of a new one. */
  const [open, setOpen] = useState<{ kind: Kind; panel?: Panel }>()
  const [addedId, setAddedId] = useState<string>()
  const mayEdit = useMayWrite(workspace)
  const isEditing = mayEdit && edit === true
  const changePanels = (work: (panels: Panel[]) => Panel[]) => change((now) => ({ ...now, panels: work(now.panels) }))
  if (error && data === undefined) return <ErrorPlace error={error} onRetry={refetch} />
  if (data === undefined) return <LoadingPlace />
  if (data === null) return <Missing title="There is no such dashboard" />

  async function remove(panel: Panel) {
    const at = data?.panels.findIndex((it) => it.id === panel.id) ?? 0
    await changePanels((panels) => panels.filter((it) => it.id !== panel.id))
    toast(`Removed ${toTitle(panel) || 'the text'}`, {
      action: {
        label: 'Undo',
        run: () => changePanels((panels) => panels.toSpliced(at, 0, panel)).catch(toastError),
      },
    })
  }
  /** The one of the same content that was opened; else somebody else has changed it. */
  const replace = (opened: Panel, content: Content, title: string) => (panels: Panel[]) => {
    const now = panels.find((it) => it.id === opened.id)
    if (!now) throw new Error('Somebody has removed the panel meanwhile.')
    if (JSON.stringify([now.content, now.title]) !== JSON.stringify([opened.content, opened.title])) {
      throw new Error('Somebody has changed the panel meanwhile: close this to see what it is now.')
    }
    return panels.map((it) => (it.id === opened.id ? { ...it, content, title } : it))
  }
  return (
    <div className={styles.page}>
      <title>{`${data.name} · ${project} · svc`}</title>
      <header className={styles.header}>
        <h1 title={data.name}>{data.name}</h1>
        {data.isDefault && <span className={styles.badge}>default</span>}
        <span className={styles.gap} />
        <Link to="/$workspace/$project/-/dashboards" params={{ workspace, project }}>
          All dashboards
        </Link>
        {isEditing && <AddPanel onAdd={(kind) => setOpen({ kind })} />}
        {mayEdit && (
          <Button
            look={isEditing ? 'primary' : 'plain'}
            onClick={() =>
              navigate({ search: (old) => ({ ...old, edit: isEditing ? undefined : true }), replace: true })
            }
          >
            {isEditing ? 'Done' : 'Edit'}
          </Button>
        )}
      </header>
      {data.panels.length === 0 && (
        <EmptyPlace title="No panel">
          {mayEdit
            ? 'Press Edit, then add charts, tables of runs, media, models in production, artifacts and text.'
            : undefined}
        </EmptyPlace>
      )}
      <Grid
        panels={data.panels}
        isEditing={isEditing}
        addedId={open ? undefined : addedId}
        onMove={(work) => changePanels(work).catch(toastError)}
        onResize={(panelId, work) =>
          changePanels((panels) => panels.map((it) => (it.id === panelId ? { ...it, ...work(it) } : it))).catch(
            toastError,
          )
        }
        onEdit={(panel) => setOpen({ kind: panel.content.kind, panel })}
        onRemove={(panel) => remove(panel).catch(toastError)}
        toPath={({ content }) => toPath(content, workspace, project)}
      >
        {(panel) => <PanelContent workspace={workspace} project={project} content={panel.content} slots={slots} />}
      </Grid>
      {open && (
        <PanelDialog
          workspace={workspace}
          project={project}
          projectId={projectId}
          kind={open.kind}
          panel={open.panel}
          onSave={async (content, title) => {
            if (open.panel) return changePanels(replace(open.panel, content, title))
            const made = toPanel(content, title)
            await changePanels((panels) => [...panels, made])
            setAddedId(made.id)
          }}
          onClose={() => setOpen(undefined)}
        />
      )}
    </div>
  )
}
