import { useQuery } from '@tanstack/react-query'
import { useParams, useSearch } from '@tanstack/react-router'
import { useState } from 'react'
import { deletedProjects, projects } from '../api/projects.ts'
import { Button } from '../kit/button.tsx'
import { PlusIcon } from '../kit/icons.tsx'
import { ErrorPlace, LoadingPlace } from '../kit/places.tsx'
import { useMayWrite } from '../kit/use-may-write.ts'
import { DeletedProjects } from './deleted-projects.tsx'
import { ListSwitch } from './list-switch.tsx'
import styles from './pages.module.css'
import { NewProject } from './project-dialogs.tsx'
import { ProjectTable } from './project-table.tsx'

/** The projects of one workspace. */
export function WorkspacePage() {
  const { workspace } = useParams({ from: '/$workspace' })
  const { archived = false, deleted = false } = useSearch({ from: '/$workspace' })
  const { data, error, refetch } = useQuery(projects(workspace))
  const deletedOnes = useQuery(deletedProjects(workspace)).data ?? []
  const archivedCount = data?.filter((it) => it.archived).length ?? 0
  const [isMaking, setMaking] = useState(false)
  const mayWrite = useMayWrite(workspace)
  if (error) return <ErrorPlace error={error} onRetry={refetch} />
  return (
    <div className={styles.page}>
      <title>{`${workspace} · svc`}</title>
      <header className={styles.header}>
        <h1>{workspace}</h1>
        <div className={styles.actions}>
          <ListSwitch from="/$workspace" field="archived" label="Archived" count={archivedCount} />
          <ListSwitch from="/$workspace" field="deleted" label="Deleted" count={deletedOnes.length} />
          {mayWrite && (
            <Button look="primary" onClick={() => setMaking(true)}>
              <PlusIcon size={14} /> New project
            </Button>
          )}
        </div>
      </header>
      {data ? <ProjectTable projects={data} workspace={workspace} withArchived={archived} /> : <LoadingPlace />}
      {deleted && <DeletedProjects projects={deletedOnes} workspace={workspace} />}
      {isMaking && <NewProject workspace={workspace} onClose={() => setMaking(false)} />}
    </div>
  )
}
