import { useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { type DeletedProject, refreshProjects, restoreProject } from '../api/projects.ts'
import { Button } from '../kit/button.tsx'
import { FormDialog } from '../kit/dialog.tsx'
import { TextField } from '../kit/field.tsx'
import { RestoreIcon } from '../kit/icons.tsx'
import { toAgo, toCount, toCountOf, toDay, toTime } from '../kit/text.ts'
import { toast } from '../kit/toast.tsx'
import { useMayWrite } from '../kit/use-may-write.ts'
import styles from './pages.module.css'

/** The projects of a workspace that were deleted and can still be restored. */
export function DeletedProjects({ projects, workspace }: { projects: DeletedProject[]; workspace: string }) {
  const [chosen, setChosen] = useState<DeletedProject>()
  const mayWrite = useMayWrite(workspace)
  return (
    <section className={styles.section}>
      <header className={styles.sectionHeader}>
        <h2>Deleted projects</h2>
      </header>
      {projects.length === 0 ? (
        <p className={styles.faint}>None that could be restored.</p>
      ) : (
        <table className={styles.table}>
          <thead>
            <tr>
              <th scope="col">Project</th>
              <th scope="col" className={styles.number}>
                Runs
              </th>
              <th scope="col" className={styles.time}>
                Deleted
              </th>
              <th scope="col" className={styles.time}>
                Kept until
              </th>
              <th scope="col" className={styles.restore}>
                <span className="visually-hidden">Actions</span>
              </th>
            </tr>
          </thead>
          <tbody>
            {projects.map((it) => (
              <tr key={it.projectId}>
                <td>
                  <div className={styles.name}>{it.projectName}</div>
                  {it.projectDescription && <p className={styles.description}>{it.projectDescription}</p>}
                </td>
                <td className={styles.number}>{toCount(it.numberOfExperiments)}</td>
                <td className={styles.time} title={toTime(it.deletedAt)}>
                  {toAgo(it.deletedAt)}
                </td>
                <td className={styles.time} title={toTime(it.restorableUntil)}>
                  {toDay(it.restorableUntil)}
                </td>
                <td className={styles.restore}>
                  {mayWrite && (
                    <Button size="small" aria-label={`Restore ${it.projectName}`} onClick={() => setChosen(it)}>
                      <RestoreIcon size={14} /> Restore
                    </Button>
                  )}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {chosen && <RestoreProject project={chosen} workspace={workspace} onClose={() => setChosen(undefined)} />}
    </section>
  )
}

type Props = { project: DeletedProject; workspace: string; onClose(): void }

function RestoreProject({ project, workspace, onClose }: Props) {
  const [name, setName] = useState(project.projectName)
  const client = useQueryClient()
  return (
    <FormDialog
      title={`Restore ${project.projectName}`}
      action="Restore project"
      canSubmit={name.trim() !== ''}
      onClose={onClose}
      onSubmit={async () => {
        await restoreProject(project.projectId, name.trim())
        await refreshProjects(client, workspace)
        toast(`Restored ${name.trim()}`)
      }}
    >
      <p>
        It comes back with its notes, views and share links, and with {toCountOf(project.numberOfExperiments, 'run')}.
      </p>
      <TextField
        label="Name"
        hint="Another one, if the old name is taken by now."
        autoFocus
        maxLength={100}
        value={name}
        onChange={(event) => setName(event.target.value)}
      />
    </FormDialog>
  )
}
