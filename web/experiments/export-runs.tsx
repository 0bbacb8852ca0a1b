import { ExportDialog } from '../kit/export/export-dialog.tsx'
import { toCountOf } from '../kit/text.ts'
import { type RunsSearch, toPredicates } from './runs-search.ts'

/** What experiments can be exported as. */
const choices = [
  {
    value: 'runs' as const,
    label: 'Runs',
    about: 'A row for each, with its parameters and tags, and the last, least and greatest value of each metric.',
  },
  { value: 'metrics' as const, label: 'Metrics', about: 'A row for each point that was logged: none is left out.' },
  { value: 'system-metrics' as const, label: 'System metrics', about: 'A row for each measurement of the machines.' },
  { value: 'output' as const, label: 'Output', about: 'A row for each line.' },
]

type Props = {
  workspaceName: string
  projectName: string
  search: RunsSearch
  /** How many runs the table has; undefined while nobody knows. */
  total: number | undefined
  onClose(): void
}

/** Exports the runs that the table shows, or all of the project. */
export function ExportRuns({ workspaceName, projectName, search, total, onClose }: Props) {
  const project = { workspaceName, projectName }
  const predicates = toPredicates(search.filter)
  const isFiltered = search.search !== undefined || predicates !== undefined
  const kind = search.archived ? 'archived run' : 'run'
  const shown = total === undefined ? `The ${kind}s` : `The ${toCountOf(total, kind)}`
  return (
    <ExportDialog
      title={`Export ${projectName}`}
      choices={choices}
      scopes={[
        {
          id: 'shown',
          label: `${shown} of the table`,
          about: isFiltered ? <Filter search={search} /> : undefined,
          value: {
            ...project,
            query: search.search,
            predicates: predicates && JSON.stringify(predicates),
            archived: search.archived === true,
          },
        },
        { id: 'all', label: 'All runs of the project', about: 'Archived ones included.', value: project },
      ]}
      onClose={onClose}
    />
  )
}

function Filter({ search: { search, filter = [] } }: { search: RunsSearch }) {
  return (
    <>
      Those that match {search !== undefined && <code>{search}</code>}
      {search !== undefined && filter.length > 0 && ' and '}
      {filter.length > 0 && (filter.length === 1 ? 'the filter' : `the ${filter.length} filters`)}.
    </>
  )
}

/** Exports one run. */
export function ExportRun({ experimentKey, name, onClose }: { experimentKey: string; name: string; onClose(): void }) {
  return (
    <ExportDialog
      title={`Export ${name}`}
      choices={choices}
      scopes={[{ id: 'run', label: 'Of this run alone.', value: { experimentKeys: experimentKey } }]}
      onClose={onClose}
    />
  )
}
