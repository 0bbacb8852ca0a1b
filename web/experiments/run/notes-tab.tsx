import { useQuery, useQueryClient } from '@tanstack/react-query'
import { others, saveOther } from '../../api/run.ts'
import { Notes } from '../../kit/notes/notes.tsx'
import { ErrorPlace, LoadingPlace } from '../../kit/places.tsx'
import { notesName } from './notes-name.ts'

/** What people wrote about a run, in Markdown. */
export function NotesTab({ experimentKey }: { experimentKey: string }) {
  const { data, error, refetch } = useQuery(others(experimentKey))
  const client = useQueryClient()
  if (error && !data) return <ErrorPlace error={error} onRetry={refetch} />
  if (!data) return <LoadingPlace />
  return (
    <Notes
      text={data.find((it) => it.name === notesName)?.valueCurrent ?? ''}
      readers="the run"
      onSave={async (text) => {
        await saveOther(experimentKey, notesName, text)
        await client.invalidateQueries(others(experimentKey))
      }}
    />
  )
}
