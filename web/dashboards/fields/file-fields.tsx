import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { type MediaName, mediaKey, mediaKinds, readMediaNames } from '../../api/artifacts/media.ts'
import { assets } from '../../api/run.ts'
import { type Column, readRuns } from '../../api/runs.ts'
import { TextField } from '../../kit/field.tsx'
import styles from '../dashboards.module.css'
import { Choice, type FieldsProps } from './choice.tsx'
import { RunChoiceFields, toChosen, toRunChoice } from './run-choice.tsx'

export function FileFields({ workspace, project, given, children }: FieldsProps<'file'>) {
  const [runKey, setRun] = useState(given?.experimentKey ?? '')
  const [fileName, setFile] = useState(given?.fileName ?? '')
  const runs = useRecentRuns(workspace, project)
  const chosen = runKey || runs[0]?.experimentKey || ''
  const files = useQuery({ ...assets(chosen), enabled: chosen !== '' }).data ?? []
  const names = [...new Set(files.filter((it) => !it.remote).map((it) => it.fileName))]
  const file = names.includes(fileName) ? fileName : (names[0] ?? '')
  return children(
    file ? { kind: 'file', experimentKey: chosen, fileName: file } : undefined,
    <>
      <Choice label="Run" value={chosen} onChange={setRun}>
        {runKey && !runs.some((it) => it.experimentKey === runKey) && <option value={runKey}>{runKey}</option>}
        {runs.map((it) => (
          <option key={it.experimentKey} value={it.experimentKey}>
            {it.name}
          </option>
        ))}
      </Choice>
      {names.length > 0 ? (
        <Choice label="File" value={file} onChange={setFile}>
          {names.map((it) => (
            <option key={it}>{it}</option>
          ))}
        </Choice>
      ) : (
        <p className={styles.note}>The run has no file.</p>
      )}
    </>,
  )
}

const namesMax = 200
/** So many of the newest runs are asked for what they have logged. */
const askedMax = 50
const sideBySide = 4

export function MediaFields({ workspace, project, projectId, given, children }: FieldsProps<'media'>) {
  const [name, setName] = useState(given ? toId(given.media) : '')
  const [find, setFind] = useState('')
  const [chosen, setChosen] = useState(toChosen(given, sideBySide))
  const keys = useRecentRuns(workspace, project)
    .slice(0, askedMax)
    .map((it) => it.experimentKey)
  const { data } = useQuery({
    queryKey: mediaKey(keys, 'names of panels', find),
    queryFn: ({ signal }) =>
      readMediaNames({ experimentKeys: keys, pageSize: namesMax, ...(find && { search: find }) }, signal),
    enabled: keys.length > 0,
  })
  const names: Pick<MediaName, 'kind' | 'name'>[] = data?.names ?? []
  const current = names.find((it) => toId(it) === name) ?? (name ? given?.media : undefined) ?? names[0]
  return children(
    current && {
      ...{ kind: 'media', media: { kind: current.kind, name: current.name }, top: chosen.top },
      ...toRunChoice(chosen),
    },
    <>
      {(data?.total ?? 0) > namesMax || find !== '' ? (
        <TextField label="Search names" value={find} onChange={(event) => setFind(event.target.value)} />
      ) : null}
      {current ? (
        <Choice label="Media" value={toId(current)} onChange={setName}>
          {!names.some((it) => toId(it) === toId(current)) && (
            <option value={toId(current)}>{`${current.name} (${current.kind})`}</option>
          )}
          {mediaKinds.flatMap((kind) =>
            names
              .filter((it) => it.kind === kind)
              .map((it) => (
                <option key={toId(it)} value={toId(it)}>
                  {`${it.name} (${kind})`}
                </option>
              )),
          )}
        </Choice>
      ) : (
        <p className={styles.note}>
          {data || keys.length === 0 ? `None of the last ${askedMax} runs has logged media.` : 'Loading …'}
        </p>
      )}
      <RunChoiceFields projectId={projectId} value={chosen} onChange={setChosen} />
    </>,
  )
}

const toId = ({ kind, name }: Pick<MediaName, 'kind' | 'name'>) => `${kind}/${name}`

const recentMax = 200

/** The newest runs of the project, to choose one. */
function useRecentRuns(workspaceName: string, projectName: string) {
  const column: Column = { source: 'metadata', name: 'startTime' }
  const asked = { workspaceName, projectName, columns: [], sort: [{ column, order: 'desc' as const }], size: recentMax }
  const { data } = useQuery({
    queryKey: ['runs', workspaceName, projectName, 'recent'],
    queryFn: ({ signal }) => readRuns(asked, signal),
  })
  return data?.runs ?? []
}
