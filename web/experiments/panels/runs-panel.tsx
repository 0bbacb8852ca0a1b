import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { type Column, knownColumns } from '../../api/runs.ts'
import { ErrorPlace, LoadingPlace } from '../../kit/places.tsx'
import { toRunColour } from '../../kit/run-colour.ts'
import { toCount } from '../../kit/text.ts'
import { useIsDark } from '../../kit/theme.ts'
import { Cell } from '../cells.tsx'
import { parseColumnId, toColumnId, toHint, toLabel, toType } from '../columns.ts'
import { present, type RunsSearch } from '../runs-search.ts'
import { useRuns } from '../use-runs.ts'
import { useSearchOfView } from '../use-shown-runs.ts'
import styles from './runs-panel.module.css'

type Content = {
  columns: Column[]
  sort?: { column: Column; order: 'asc' | 'desc' }
  view?: string
  query?: string
  top: number
}
type Props = { workspace: string; project: string; content: Content }

/** The first runs of a query or view with chosen columns, on a dashboard; it says how many more there are. */
export function RunsPanel({ workspace, project, content }: Props) {
  const { view, query, sort, top } = content
  const url: RunsSearch = present({
    view,
    search: query,
    sort: sort && [`${sort.order === 'desc' ? '-' : ''}${toColumnId(sort.column)}`],
  })
  const found = useSearchOfView(workspace, project, url)
  // In groups there would be no row until one is opened.
  const search = { ...found.search, group: undefined }
  const columns = content.columns.map(toColumnId)
  const runs = useRuns({ workspaceName: workspace, projectName: project }, columns, search, found.isReady)
  const known = useQuery(knownColumns(workspace, project)).data ?? []
  const isDark = useIsDark()
  const byId = new Map(known.map((it) => [toColumnId(it), it]))
  const types = new Map(columns.map((it) => [it, toType(it, byId)]))
  const error = found.project.error ?? runs.error
  if (error) {
    return <ErrorPlace error={error} onRetry={() => void Promise.all([found.project.refetch(), runs.refetch()])} />
  }
  if (runs.total === undefined) return <LoadingPlace rows={4} />
  const shown = runs.rows.flatMap((it) => (it.kind === 'run' ? [it] : [])).slice(0, top)
  const rest = runs.total - shown.length
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what does not fit is scrolled by keyboard
    <div className={styles.frame} tabIndex={0} role="region" aria-label="Runs">
      <table className={styles.table}>
        <thead>
          <tr>
            <th scope="col">Name</th>
            {columns.map((it) => (
              <th key={it} scope="col" data-type={types.get(it)}>
                {toLabel(parseColumnId(it))} <span className={styles.hint}>{toHint(parseColumnId(it))}</span>
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {shown.map(({ run, columns: read }) => (
            <tr key={run.experimentKey}>
              <td>
                <span className={styles.colour} style={{ background: toRunColour(run.experimentKey, isDark) }} />
                <Link
                  to="/$workspace/$project/$key"
                  params={{ workspace, project, key: run.experimentKey }}
                  title={run.name}
                >
                  {run.name}
                </Link>
              </td>
              {columns.map((it) => (
                <td key={it} data-type={types.get(it)}>
                  <Cell column={it} type={types.get(it) ?? 'text'} value={run.values[read.indexOf(it)] ?? null} />
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
      {shown.length === 0 && <p className={styles.note}>No run matches.</p>}
      {rest > 0 && (
        <p className={styles.note}>
          <Link to="/$workspace/$project" params={{ workspace, project }} search={url}>
            {toCount(rest)} more
          </Link>
        </p>
      )}
    </div>
  )
}
