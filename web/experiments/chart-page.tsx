import { useQueries, useQuery } from '@tanstack/react-query'
import { getRouteApi } from '@tanstack/react-router'
import type { ComponentType } from 'react'
import { metadata } from '../api/run.ts'
import { knownColumns } from '../api/runs.ts'
import type { OneChartProps } from '../kit/charts-slot.ts'
import { EmptyPlace, ErrorPlace, LoadingPlace } from '../kit/places.tsx'
import type { ShownRun } from '../kit/run-colour.ts'
import styles from './chart-page.module.css'
import type { ChartSearch } from './chart-search.ts'
import { present } from './runs-search.ts'
import { useRuns } from './use-runs.ts'
import { useSearchOfView, useShownRuns } from './use-shown-runs.ts'

const route = getRouteApi('/$workspace/$project/-/chart')

type Chart = ComponentType<OneChartProps>

/**
 * One chart and nothing else, for frames in notebooks. Its runs are those of `runs`, or those that the page of the project shows
 * with the same search parameters.
 */
export function ChartPage({ Chart }: { Chart: Chart }) {
  const { workspace, project } = route.useParams()
  const search = route.useSearch()
  const known = useQuery(knownColumns(workspace, project))
  if (!search.metric) {
    return (
      <EmptyPlace title="Which chart?">
        The address names it: <code>?metric=loss</code>. Copy it from the menu of a chart.
      </EmptyPlace>
    )
  }
  if (known.error) return <ErrorPlace error={known.error} onRetry={known.refetch} />
  return (
    <>
      <title>{`${search.metric} · ${project} · svc`}</title>
      <h1 className="visually-hidden">{project}</h1>
      <h2 className="visually-hidden">{search.metric}</h2>
      {search.runs ? <OfRuns Chart={Chart} keys={search.runs} /> : <OfProject Chart={Chart} />}
    </>
  )
}

function OfRuns({ Chart, keys }: { Chart: Chart; keys: string[] }) {
  const search = route.useSearch()
  const runs = useQueries({
    queries: keys.map(metadata),
    combine: (read) => ({
      failed: read.flatMap(({ error, data }, at) => (error && !data ? [{ key: keys[at] as string, error }] : [])),
      isPending: read.some((it) => it.isPending),
      found: read.flatMap(({ data }): ShownRun[] =>
        data ? [{ experimentKey: data.experimentKey, name: data.experimentName }] : [],
      ),
      refetch: () => void Promise.all(read.map((it) => it.refetch())),
    }),
  })
  const [failed] = runs.failed
  if (runs.isPending) return <LoadingPlace />
  if (failed && runs.found.length === 0) return <ErrorPlace error={failed.error} onRetry={runs.refetch} />
  return (
    <>
      {failed && (
        <p role="status" className={styles.missing}>
          Without {runs.failed.map((it) => it.key).join(', ')}: {failed.error.message}
        </p>
      )}
      <Drawn Chart={Chart} runs={runs.found} search={search} />
    </>
  )
}

function OfProject({ Chart }: { Chart: Chart }) {
  const { workspace, project: projectName } = route.useParams()
  const { project, search, isReady } = useSearchOfView(workspace, projectName, route.useSearch())
  const runs = useRuns({ workspaceName: workspace, projectName }, noColumns, search, isReady)
  const { shown } = useShownRuns(runs, search)
  const error = project.error ?? runs.error
  if (error) return <ErrorPlace error={error} onRetry={() => void Promise.all([project.refetch(), runs.refetch()])} />
  if (runs.total === undefined) return <LoadingPlace />
  return <Drawn Chart={Chart} runs={shown} search={search} />
}

const noColumns: string[] = []

function Drawn({ Chart, runs, search }: { Chart: Chart; runs: ShownRun[]; search: ChartSearch }) {
  const { workspace, project } = route.useParams()
  const { metric = '', context = '', ...rest } = route.useSearch()
  const navigate = route.useNavigate()
  return (
    <Chart
      workspace={workspace}
      project={project}
      metric={{ name: metric, context }}
      runs={runs}
      state={search.charts ?? {}}
      ofChart={present(rest)}
      onState={(change) =>
        navigate({ search: (it) => ({ ...it, charts: { ...search.charts, ...change } }), replace: true })
      }
    />
  )
}
