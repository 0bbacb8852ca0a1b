import { keepPreviousData, useQueries, useQuery } from '@tanstack/react-query'
import { useParams, useRouter } from '@tanstack/react-router'
import { type KeyboardEvent, useDeferredValue, useId, useState } from 'react'
import { projects, workspaces } from '../api/projects.ts'
import { readRuns } from '../api/runs.ts'
import { Dialog } from '../kit/dialog.tsx'
import { Input } from '../kit/field.tsx'
import { toPagePath } from '../kit/page-link.tsx'
import styles from './search.module.css'

type Found = { path: string; name: string; place: string }

const shownMax = 50
const runsMax = 20

/** Goes anywhere by name: workspaces, projects, and the runs of the project that the page is of. */
export function Search({ onClose }: { onClose(): void }) {
  const [text, setText] = useState('')
  const [at, setAt] = useState(0)
  const listId = useId()
  const router = useRouter()
  const found = useFound(useDeferredValue(text))
  const chosen = Math.min(at, found.length - 1)

  function go(it: Found | undefined) {
    if (!it) return
    onClose()
    router.history.push(`${router.basepath.replace(/\/$/, '')}${it.path}`)
  }
  function onKeyDown(event: KeyboardEvent) {
    const moves: Record<string, number> = { ArrowDown: 1, ArrowUp: -1 }
    const move = moves[event.key]
    if (event.key === 'Enter') go(found[chosen])
    else if (move && found.length > 0) setAt((chosen + move + found.length) % found.length)
    else return
    event.preventDefault()
  }
  return (
    <Dialog title="Search" onClose={onClose} width={560}>
      <Input
        autoFocus
        role="combobox"
        aria-expanded="true"
        aria-controls={listId}
        aria-activedescendant={found.length > 0 ? `${listId}-${chosen}` : undefined}
        aria-label="Search workspaces, projects and runs"
        placeholder="Workspaces, projects, runs of this project"
        className={styles.input}
        value={text}
        onChange={(event) => {
          setText(event.target.value)
          setAt(0)
        }}
        onKeyDown={onKeyDown}
      />
      <div id={listId} role="listbox" aria-label="Found" className={styles.list}>
        {found.map((it, index) => (
          // biome-ignore lint/a11y/useKeyWithClickEvents: the input above has the keyboard
          <div
            key={it.path}
            id={`${listId}-${index}`}
            role="option"
            tabIndex={-1}
            aria-selected={index === chosen}
            className={styles.item}
            onClick={() => go(it)}
            onPointerMove={() => setAt(index)}
          >
            <span>{it.name}</span>
            <span className={styles.place}>{it.place}</span>
          </div>
        ))}
      </div>
      {found.length === 0 && <p className={styles.none}>Nothing has this name.</p>}
    </Dialog>
  )
}

/** The service finds runs, by name, key and tag. */
function useFoundRuns(search: string): Found[] {
  const { workspace, project } = useParams({ strict: false }) as { workspace?: string; project?: string }
  const isWanted = workspace !== undefined && project !== undefined && search.trim() !== ''
  const { data } = useQuery({
    queryKey: ['runs', workspace, project, 'search', search],
    queryFn: ({ signal }) =>
      readRuns(
        {
          workspaceName: String(workspace),
          projectName: String(project),
          columns: [],
          sort: [],
          search,
          size: runsMax,
        },
        signal,
      ),
    enabled: isWanted,
    placeholderData: keepPreviousData,
  })
  if (!isWanted) return []
  return (data?.runs ?? []).map(({ experimentKey, name }) => ({
    path: `/${toPagePath(workspace, project, experimentKey)}`,
    name,
    place: 'Run',
  }))
}

function useFound(text: string): Found[] {
  const names = useQuery(workspaces).data ?? []
  const lists = useQueries({ queries: names.map(projects) })
  const all: Found[] = [
    ...lists
      .flatMap((it) => it.data ?? [])
      .toSorted((a, b) => b.lastUpdated - a.lastUpdated)
      .map((it) => ({
        path: `/${toPagePath(it.workspaceName, it.projectName)}`,
        name: it.projectName,
        place: it.archived ? `${it.workspaceName}, archived` : it.workspaceName,
      })),
    ...names.map((name) => ({ path: `/${encodeURIComponent(name)}`, name, place: 'Workspace' })),
  ]
  const runs = useFoundRuns(text)
  const words = text.toLowerCase().split(/\s+/)
  const named = all
    .filter((it) => words.every((word) => `${it.place}/${it.name}`.toLowerCase().includes(word)))
    .slice(0, shownMax)
  return [...named, ...runs]
}
