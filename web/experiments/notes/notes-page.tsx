import { useQuery, useQueryClient } from '@tanstack/react-query'
import { getRouteApi } from '@tanstack/react-router'
import { project, projectNotes, saveProjectNotes } from '../../api/projects.ts'
import { Notes } from '../../kit/notes/notes.tsx'
import { ErrorPlace, LoadingPlace } from '../../kit/places.tsx'
import { useMayWrite } from '../../kit/use-may-write.ts'
import styles from './notes-page.module.css'

const route = getRouteApi('/$workspace/$project/-/notes')

/** What people wrote about a project. */
export function NotesPage() {
  const { workspace, project: name } = route.useParams()
  const client = useQueryClient()
  const mayWrite = useMayWrite(workspace)
  const found = useQuery(project(workspace, name))
  const projectId = found.data?.projectId
  const { data, error, refetch } = useQuery({ ...projectNotes(projectId ?? ''), enabled: projectId !== undefined })
  const fault = found.error ?? error
  return (
    <>
      <title>{`Notes · ${name} · svc`}</title>
      <h1 className={styles.title}>Notes of {name}</h1>
      {fault && data === undefined ? (
        <ErrorPlace error={fault} onRetry={() => void (found.error ? found.refetch() : refetch())} />
      ) : projectId === undefined || data === undefined ? (
        <LoadingPlace />
      ) : (
        <Notes
          text={data}
          readers="the project"
          onSave={
            mayWrite
              ? async (text) => {
                  await saveProjectNotes(projectId, text)
                  await client.invalidateQueries(projectNotes(projectId))
                }
              : undefined
          }
        />
      )}
    </>
  )
}
