import { useQuery, useQueryClient } from '@tanstack/react-query'
import { others, saveOther } from '../../api/run.ts'
import { Notes } from '../../kit/notes/notes.tsx'
import { ErrorPlace, LoadingPlace } from '../../kit/places.tsx'
import { useMayWrite } from '../../kit/use-may-write.ts'
import { notesName } from './notes-name.ts'

type Props = { experimentKey: string; workspaceName: string }

/** What people wrote about a run, in Markdown. */
export function NotesTab({ experimentKey, workspaceName }: Props) {
  const mayWrite = useMayWrite(workspaceName)
  const { data, error, refetch } = useQuery(others(experimentKey))
  const client = useQueryClient()
  if (error && !data) return <ErrorPlace error={error} onRetry={refetch} />
  if (!data) return <LoadingPlace />
  return (
    <Notes
      text={data.find((it) => it.name === notesName)?.valueCurrent ?? ''}
      readers="the run"
      onSave={
        mayWrite
          ? async (text) => {
              await saveOther(experimentKey, notesName, text)
              await client.invalidateQueries(others(experimentKey))
            }
          : undefined
      }
    />
  )
}
