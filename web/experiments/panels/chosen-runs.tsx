import type { ReactNode } from 'react'
import { ErrorPlace, LoadingPlace } from '../../kit/places.tsx'
import type { ShownRun } from '../../kit/run-colour.ts'
import { present, toSearchOfChart } from '../runs-search.ts'
import { useRuns } from '../use-runs.ts'
import { useSearchOfView, useShownRuns } from '../use-shown-runs.ts'

type Props = {
  workspace: string
  project: string
  /** The id of a named view, a query, and how many runs from the top. */
  view?: string
  query?: string
  top: number
  /** `ofChart`: the search with which the page of one chart shows the same. */
  children(shown: { runs: ShownRun[]; leftOut: number; ofChart: Record<string, unknown> }): ReactNode
}

const noColumns: string[] = []

/** The runs that a chart on a dashboard draws: as the page of the project has them with this view and query. */
export function ChosenRuns({ workspace, project: projectName, view, query, top, children }: Props) {
  const url = present({ view, search: query, top })
  const { project, search, isReady } = useSearchOfView(workspace, projectName, url)
  const runs = useRuns({ workspaceName: workspace, projectName }, noColumns, search, isReady)
  const { shown, leftOut } = useShownRuns(runs, search)
  const error = project.error ?? runs.error
  if (error) return <ErrorPlace error={error} onRetry={() => void Promise.all([project.refetch(), runs.refetch()])} />
  if (runs.total === undefined) return <LoadingPlace rows={4} />
  return children({ runs: shown, leftOut, ofChart: toSearchOfChart(search) })
}
