import { type UseQueryResult, useQueries, useQuery, useQueryClient } from '@tanstack/react-query'
import { Link, useNavigate, useSearch } from '@tanstack/react-router'
import { useState } from 'react'
import { createWorkspace, type Project, projects, workspaces } from '../api/projects.ts'
import { Button } from '../kit/button.tsx'
import { FormDialog } from '../kit/dialog.tsx'
import { TextField } from '../kit/field.tsx'
import { PlusIcon } from '../kit/icons.tsx'
import { EmptyPlace, ErrorPlace, LoadingPlace } from '../kit/places.tsx'
import { toCountOf } from '../kit/text.ts'
import { ListSwitch } from './list-switch.tsx'
import styles from './pages.module.css'
import { ProjectTable } from './project-table.tsx'

/** Workspaces, each with its projects. */
export function HomePage() {
  const { data: names, error, refetch } = useQuery(workspaces)
  const lists = useQueries({ queries: (names ?? []).map(projects) })
  const archivedCount = lists.flatMap((it) => it.data ?? []).filter((it) => it.archived).length
  const [isMaking, setMaking] = useState(false)
  if (error) return <ErrorPlace error={error} onRetry={refetch} />
  return (
    <div className={styles.page}>
      <title>Projects · svc</title>
      <header className={styles.header}>
        <h1>Projects</h1>
        <div className={styles.actions}>
          <ListSwitch from="/" field="archived" label="Archived" count={archivedCount} />
          <Button onClick={() => setMaking(true)}>
            <PlusIcon size={14} /> New workspace
          </Button>
        </div>
      </header>
      {names === undefined ? (
        <LoadingPlace />
      ) : names.length === 0 ? (
        <EmptyPlace
          title="You are in no workspace yet"
          action={
            <Button look="primary" onClick={() => setMaking(true)}>
              New workspace
            </Button>
          }
        >
          A workspace holds the projects of a team. Make one, or ask an owner of a workspace to add you.
        </EmptyPlace>
      ) : (
        <Workspaces names={names} lists={lists} />
      )}
      {isMaking && <NewWorkspace onClose={() => setMaking(false)} />}
    </div>
  )
}

function Workspaces({ names, lists }: { names: string[]; lists: UseQueryResult<Project[]>[] }) {
  const { archived = false } = useSearch({ from: '/' })
  return names.map((name, at) => {
    const { data, error, refetch } = lists[at] ?? {}
    return (
      <section key={name} className={styles.section}>
        <header className={styles.sectionHeader}>
          <h2>
            <Link to="/$workspace" params={{ workspace: name }}>
              {name}
            </Link>
          </h2>
          {data && (
            <span className={styles.faint}>
              {toCountOf(data.filter((it) => archived || !it.archived).length, 'project')}
            </span>
          )}
        </header>
        {error ? (
          <ErrorPlace error={error} onRetry={refetch} />
        ) : data ? (
          <ProjectTable projects={data} workspace={name} withArchived={archived} />
        ) : (
          <LoadingPlace rows={2} />
        )}
      </section>
    )
  })
}

function NewWorkspace({ onClose }: { onClose(): void }) {
  const [name, setName] = useState('')
  const client = useQueryClient()
  const navigate = useNavigate()
  return (
    <FormDialog
      title="New workspace"
      action="Create workspace"
      canSubmit={name.trim() !== ''}
      onClose={onClose}
      onSubmit={async () => {
        await createWorkspace(name.trim())
        await client.invalidateQueries(workspaces)
        await navigate({ to: '/$workspace', params: { workspace: name.trim() } })
      }}
    >
      <TextField
        label="Name"
        hint="Part of every link, and of what training code logs to."
        autoFocus
        maxLength={100}
        value={name}
        onChange={(event) => setName(event.target.value)}
      />
    </FormDialog>
  )
}
