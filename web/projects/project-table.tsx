import { useQueryClient } from '@tanstack/react-query'
import { Link, useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { archiveProject, type Project, projects as projectsOf } from '../api/projects.ts'
import { Button, IconButton } from '../kit/button.tsx'
import { ArchiveDialog } from '../kit/export/export-dialog.tsx'
import {
  ArchiveIcon,
  DotsIcon,
  DownloadIcon,
  LinkIcon,
  NotesIcon,
  PencilIcon,
  PlusIcon,
  RestoreIcon,
  TrashIcon,
} from '../kit/icons.tsx'
import { Menu, MenuItem, MenuLine } from '../kit/menu.tsx'
import { EmptyPlace } from '../kit/places.tsx'
import { toAgo, toCount, toTime } from '../kit/text.ts'
import { toast, toastError } from '../kit/toast.tsx'
import { useMayWrite } from '../kit/use-may-write.ts'
import styles from './pages.module.css'
import { DeleteProject, EditProject, NewProject } from './project-dialogs.tsx'
import { ShareProject } from './share-project.tsx'

type Props = { projects: Project[]; workspace: string; withArchived: boolean }

/** Projects, the last active first; those that are archived come last, or not at all. */
export function ProjectTable({ projects, workspace, withArchived }: Props) {
  const [isMaking, setMaking] = useState(false)
  const mayWrite = useMayWrite(workspace)
  if (projects.length === 0) {
    return (
      <>
        <EmptyPlace
          title="No project yet"
          action={
            mayWrite && (
              <Button look="primary" onClick={() => setMaking(true)}>
                <PlusIcon size={14} /> New project
              </Button>
            )
          }
        >
          {mayWrite
            ? 'Training code makes a project by logging to it; or make one here and get the lines to paste.'
            : 'Training code of an editor makes a project by logging to it.'}
        </EmptyPlace>
        {isMaking && <NewProject workspace={workspace} onClose={() => setMaking(false)} />}
      </>
    )
  }
  const shown = projects.filter((it) => withArchived || !it.archived)
  if (shown.length === 0) {
    return (
      <EmptyPlace title="All projects are archived">Show them with the switch above, and bring one back.</EmptyPlace>
    )
  }
  return (
    <table className={styles.table}>
      <thead>
        <tr>
          <th scope="col">Project</th>
          <th scope="col" className={styles.number}>
            Runs
          </th>
          <th scope="col" className={styles.time}>
            Last activity
          </th>
          <th scope="col" className={styles.owner}>
            Owner
          </th>
          <th scope="col" className={styles.more}>
            <span className="visually-hidden">Actions</span>
          </th>
        </tr>
      </thead>
      <tbody>
        {shown
          .toSorted((a, b) => Number(a.archived) - Number(b.archived) || b.lastUpdated - a.lastUpdated)
          .map((it) => (
            <ProjectRow key={it.projectId} project={it} />
          ))}
      </tbody>
    </table>
  )
}

function ProjectRow({ project }: { project: Project }) {
  const [open, setOpen] = useState<'edit' | 'share' | 'download' | 'delete'>()
  const close = () => setOpen(undefined)
  const mayWrite = useMayWrite(project.workspaceName)
  const client = useQueryClient()
  const navigate = useNavigate()
  const change = async (archived: boolean) => {
    await archiveProject(project.projectId, archived)
    await client.invalidateQueries(projectsOf(project.workspaceName))
  }
  const archive = async (archived: boolean) => {
    await change(archived)
    toast(archived ? `Archived ${project.projectName}` : `Brought back ${project.projectName}`, {
      action: { label: 'Undo', run: () => change(!archived).catch(toastError) },
    })
  }
  return (
    <tr>
      <td>
        <div className={styles.name}>
          <Link to="/$workspace/$project" params={{ workspace: project.workspaceName, project: project.projectName }}>
            {project.projectName}
          </Link>
          {project.isPublic && <span className={styles.badge}>public</span>}
          {project.archived && <span className={styles.badge}>archived</span>}
        </div>
        {project.projectDescription && <p className={styles.description}>{project.projectDescription}</p>}
      </td>
      <td className={styles.number}>{toCount(project.numberOfExperiments)}</td>
      <td className={styles.time} title={toTime(project.lastUpdated)}>
        {toAgo(project.lastUpdated)}
      </td>
      <td className={styles.owner} title={project.ownerUserName}>
        {project.ownerUserName}
      </td>
      <td className={styles.more}>
        <Menu
          align="end"
          trigger={
            <IconButton label={`Actions for ${project.projectName}`} size="small">
              <DotsIcon />
            </IconButton>
          }
        >
          {mayWrite && (
            <MenuItem icon={<PencilIcon />} onSelect={() => setOpen('edit')}>
              Edit
            </MenuItem>
          )}
          <MenuItem
            icon={<NotesIcon />}
            onSelect={() =>
              navigate({
                to: '/$workspace/$project/-/notes',
                params: { workspace: project.workspaceName, project: project.projectName },
              })
            }
          >
            Notes
          </MenuItem>
          {mayWrite && (
            <MenuItem icon={<LinkIcon />} onSelect={() => setOpen('share')}>
              Share
            </MenuItem>
          )}
          <MenuItem icon={<DownloadIcon />} onSelect={() => setOpen('download')}>
            Download archive …
          </MenuItem>
          {mayWrite && (
            <>
              <MenuLine />
              {project.archived ? (
                <MenuItem icon={<RestoreIcon />} onSelect={() => archive(false).catch(toastError)}>
                  Bring back
                </MenuItem>
              ) : (
                <MenuItem icon={<ArchiveIcon />} onSelect={() => archive(true).catch(toastError)}>
                  Archive
                </MenuItem>
              )}
              <MenuItem icon={<TrashIcon />} danger onSelect={() => setOpen('delete')}>
                Delete
              </MenuItem>
            </>
          )}
        </Menu>
        {open === 'edit' && <EditProject project={project} onClose={close} />}
        {open === 'share' && <ShareProject project={project} onClose={close} />}
        {open === 'download' && <ArchiveDialog {...project} onClose={close} />}
        {open === 'delete' && <DeleteProject project={project} onClose={close} />}
      </td>
    </tr>
  )
}
